//! Approval links, as a browser uses them.

use dormouse_testkit::call;
use http::Method;
use serde_json::json;

use crate::{
    app::{Answer, App, approval, event, respond_url, with_header},
    links::link,
};

const HTML: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

async fn open(app: &App, path: &str) -> Answer {
    let mut event = with_header(event("x", Method::GET, path, ""), "accept", HTML);
    event.request_context.authorizer.fields.clear();
    page(app.send(event).await)
}

async fn submit(app: &App, path: &str, form: &str) -> Answer {
    let event = with_header(event("x", Method::POST, path, form), "content-type", "application/x-www-form-urlencoded");
    let mut event = with_header(event, "accept", HTML);
    event.request_context.authorizer.fields.clear();
    page(app.send(event).await)
}

/// Whatever a page is about, it brings nothing along, sends nothing elsewhere, and is kept by nobody.
fn page(answer: Answer) -> Answer {
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{}", answer.text);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(policy.contains("form-action 'self'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let text = answer.text.to_lowercase();
    for foreign in ["<script", " on", "src=", "href=", "http:", "https:", "<img", "<a "] {
        let found = text.find(foreign).filter(|_| foreign != " on");
        assert_eq!(found, None, "{foreign}: {text}");
    }
    answer
}

fn path(link: &serde_json::Value) -> String {
    link["path"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn x6_a_page_shows_the_request_and_its_form_decides() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let made = link(&app, "ann", &request, json!({})).await;
    let shown = open(&app, &path(&made)).await;
    assert_eq!(shown.status, 200);
    let digest = request["digest"].as_str().unwrap();
    for part in
        ["deploy(env: &quot;test&quot;)", "&quot;env&quot;: &quot;test&quot;", digest, "acme/ann", "Approve", "Deny"]
    {
        assert!(shown.text.contains(part), "{part}: {}", shown.text);
    }
    assert!(shown.text.contains(request["decide_by"].as_str().unwrap()));
    assert!(!shown.text.contains("value=\"edit\""));
    // A token in the page would be one more place to lose it.
    assert!(!shown.text.contains(made["token"].as_str().unwrap()));
    let digest = digest.replace(':', "%3A");
    let decided = submit(&app, &path(&made), &format!("decision=deny&digest={digest}&reason=not+%3Cnow%3E")).await;
    assert_eq!(decided.status, 200);
    assert!(decided.text.contains("not &lt;now&gt;"), "{}", decided.text);
    // Whoever is second is told what, by whom, when and by what way.
    let again = submit(&app, &path(&made), "decision=approve").await;
    assert_eq!(again.status, 409);
    let seen = open(&app, &path(&made)).await;
    for told in [again, seen] {
        for part in ["Already decided", "deny", "not &lt;now&gt;", "acme/ann", "a link", "2023-11-14T"] {
            assert!(told.text.contains(part), "{part}: {}", told.text);
        }
        assert!(!told.text.contains("<form"), "{}", told.text);
    }
    app.step(&run).await;
    assert_eq!(app.world.tools.count("deploy"), 0);
}

/// C3: a model chose these words. None of them becomes markup, and what would hide is shown.
#[tokio::test]
async fn x6_c3_nothing_of_a_run_becomes_markup() {
    let app = App::new();
    let nasty = "</pre><script>x</script><form action='//evil'>\u{202e}\u{7}\u{200b}\" onload=\"x";
    let arguments = json!({ (nasty): nasty }).to_string();
    let run = app.run("ann", vec![vec![call("c", "deploy", &arguments)]]).await;
    let request = app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["requests"][0].clone();
    let shown = open(&app, &path(&link(&app, "ann", &request, json!({})).await)).await;
    assert!(shown.text.contains("&lt;script&gt;"), "{}", shown.text);
    assert!(shown.text.contains("u{202e}") && shown.text.contains("u{7}") && shown.text.contains("u{200b}"));
    assert!(!shown.text.contains(['\u{202e}', '\u{7}', '\u{200b}']));
    assert_eq!(shown.text.matches("<form").count(), 2, "one to approve, one to deny");
    assert_eq!(shown.text.matches("<form method=\"post\">").count(), 2, "both to the page's own address");

    let option = json!({ "value": "\"><b>", "label": "<i>\u{202e}", "cancels": true });
    let question = json!({ "question": "<u>Which?</u>", "options": [option], "allow_free_text": true });
    let (_, request) = app.asking("ann", question).await;
    let made = link(&app, "ann", &request, json!({})).await;
    let shown = open(&app, &path(&made)).await;
    assert!(shown.text.contains("&lt;u&gt;Which?&lt;/u&gt;") && shown.text.contains("(ends the run)"));
    assert!(shown.text.contains(r#"value="&quot;\&quot;&gt;&lt;b&gt;&quot;""#), "{}", shown.text);
    for markup in ["<b>", "<i>", "<u>", "\u{202e}"] {
        assert!(!shown.text.contains(markup), "{markup}");
    }
    let decided = submit(&app, &path(&made), "decision=answer&option=%22%5C%22%3E%3Cb%3E%22").await;
    assert_eq!(decided.status, 200, "{}", decided.text);
    assert!(decided.text.contains("&quot;&gt;&lt;b&gt;") && !decided.text.contains("<b>"), "{}", decided.text);
}

/// What an uncertain call did can be said on a page too.
#[tokio::test]
async fn x6_a_page_settles_what_is_uncertain() {
    let app = App::new();
    app.world.tools.on("wipe", |_| dormouse_domain::entry::CallResult::Unknown { why: "no answer".into() });
    let run = app.run("ann", vec![vec![call("c", "wipe", "{}")]]).await;
    let request = app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["requests"][0].clone();
    let made = link(&app, "ann", &request, json!({})).await;
    let shown = open(&app, &path(&made)).await;
    for resolution in ["retry", "abort", "result"] {
        assert!(shown.text.contains(&format!("value=\"{resolution}\"")), "{}", shown.text);
    }
    let settled = submit(&app, &path(&made), "decision=settle&resolution=result&result=wiped%0D%0Aall").await;
    assert_eq!(settled.status, 200, "{}", settled.text);
    let view = app.get("ann", &format!("/v1/requests/{}", request["request_id"].as_str().unwrap())).await.expect(200);
    assert_eq!(view["decision"]["resolution"], json!({ "result": "wiped\nall" }));
}

/// What is over, withdrawn, or no link at all is told on a page as well, under the status that programs get.
#[tokio::test]
async fn x6_c4_pages_say_what_became_of_it() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let made = link(&app, "ann", &request, json!({ "expires_in": "90s" })).await;
    let long = link(&app, "ann", &request, json!({ "expires_in": "12h" })).await;
    let other = app.waiting("ann").await;
    let withdrawn = link(&app, "ann", &other.1, json!({})).await;
    app.post("ann", &format!("/v1/runs/{}/cancel", other.0), json!({})).await.expect(200);
    let seen = open(&app, &path(&withdrawn)).await;
    assert!(seen.status == 200 && seen.text.contains("withdrawn"), "{}", seen.text);
    assert_eq!(submit(&app, &path(&withdrawn), "decision=deny").await.status, 410);
    app.world.clock.advance(90_001);
    for gone in [open(&app, &path(&made)).await, submit(&app, &path(&made), "decision=deny").await] {
        assert!(gone.status == 410 && gone.text.contains("this link has expired"), "{}", gone.text);
        assert!(!gone.text.contains("deploy"), "{}", gone.text);
    }
    app.post("ann", &respond_url(&request), approval(&request)).await.expect(200);
    let seen = open(&app, &path(&long)).await;
    assert!(seen.text.contains("approve") && !seen.text.contains("a link<"), "{}", seen.text);
    let none = open(&app, "/v1/links/link1.test.x.y").await;
    assert!(none.status == 404 && none.text.contains("there is no such link"), "{}", none.text);
    let bad = submit(&app, &path(&long), "decision=deny&%3Cb%3E=1").await;
    assert!(bad.status == 400 && bad.text.contains("&lt;b&gt;"), "{}", bad.text);
    app.step(&run).await;
}
