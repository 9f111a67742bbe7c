//! Lists and journals, page by page.

use dormouse_testkit::{call, say};
use serde_json::{Value, json};

use crate::app::App;

/// All pages of a list, `limit` items each, as a client walks them.
async fn walk(app: &App, url: &str, limit: usize) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = app.get("ann", &format!("{url}?limit={limit}{cursor}")).await.expect(200);
        pages.push(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next_cursor"].as_str() else { return pages };
        cursor = format!("&cursor={next}");
        assert!(pages.len() < 100);
    }
}

#[tokio::test]
async fn runs_and_requests_are_listed_in_pages() {
    let app = App::new();
    for _ in 0..5 {
        app.waiting("ann").await;
    }
    app.waiting("bob").await;
    for (url, name) in [("/v1/runs", "run_id"), ("/v1/requests", "request_id")] {
        let pages = walk(&app, url, 2).await;
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1], "{url}");
        let mut names: Vec<_> = pages.concat().iter().map(|item| item[name].to_string()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 5, "{url}");
    }
}

#[tokio::test]
async fn a_journal_is_read_in_pages_without_gap_or_repeat() {
    let app = App::new();
    let mut replies: Vec<_> = (0..15).map(|i| vec![call(&format!("c{i}"), "wipe", "{}")]).collect();
    replies.push(vec![say("done")]);
    let run = app.run("ann", replies).await;
    let url = format!("/v1/runs/{run}/journal");
    let whole = app.get("ann", &format!("{url}?limit=200")).await.expect(200);
    assert_eq!(whole.get("next_cursor"), None);
    let whole = whole["items"].as_array().unwrap().clone();
    assert!(whole.len() > 30, "more than is read at once");
    assert!(whole.iter().enumerate().all(|(i, item)| item["index"] == i));
    for limit in [1, 7, 25, 26, whole.len()] {
        let pages = walk(&app, &url, limit).await;
        assert_eq!(pages.concat(), whole, "{limit}");
        assert!(pages.iter().all(|page| !page.is_empty() && page.len() <= limit), "{limit}");
    }
}

/// A function's answer has 6 MB at most: a page ends early rather than failing.
#[tokio::test]
async fn a_page_of_large_entries_ends_early() {
    let app = App::new();
    let large = "x".repeat(900_000);
    let replies = (0..4).map(|_| vec![say(&large), call("c", "wipe", "{}")]).chain([vec![say("done")]]).collect();
    let run = app.run("ann", replies).await;
    let pages = walk(&app, &format!("/v1/runs/{run}/journal"), 200).await;
    assert!(pages.len() > 1);
    assert!(pages.iter().all(|page| json!(page).to_string().len() < 3_000_000));
    let indexes: Vec<_> = pages.concat().iter().map(|item| item["index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, (0..indexes.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn odd_pages_are_refused() {
    let app = App::new();
    let (run, _) = app.waiting("ann").await;
    let journal = format!("/v1/runs/{run}/journal");
    for url in ["/v1/runs", "/v1/requests", journal.as_str()] {
        for query in ["limit=0", "limit=201", "limit=x", "limit=-1", "limit=", "cursor=zzz"] {
            app.get("ann", &format!("{url}?{query}")).await.expect_problem(400, "invalid-request");
        }
    }
}
