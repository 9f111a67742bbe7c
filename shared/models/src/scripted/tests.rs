use std::time::Duration;

use dormouse_domain::{
    message::{Content, ReplyBlock, StopReason},
    retry::FailureClass,
};
use dormouse_engine::ports::Reply;

use super::{Scripted, script::Script};
use crate::testing::{Talk, Turn, call, image, model, text};

const SCRIPT: &str = r#"
[[replies]]
text = "Looking at {{input}}."
[[replies.calls]]
name = "read"
arguments = { path = "{{ input }}", n = 1.0, deep = [{ b = "{{result}}", a = true }], at = 2026-01-02 }
[[replies.calls]]
name = "list"
id = "mine"

[[replies]]
text = "{{result:read}} / {{result:list}} / {{result}} / {{result:other}} / {{unknown}} / {{"

[[replies]]
text = "late"
delay_ms = 60000
"#;

async fn ask(script: &str, talk: &Talk, turns: usize) -> Result<Reply, dormouse_domain::retry::Failure> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.toml"), script).unwrap();
    let scripted = Scripted::in_folder(folder.path());
    scripted.call(&model("scripted:s.toml"), &talk.prompt(turns, 1), Duration::from_millis(50)).await
}

fn talk() -> Talk {
    let first =
        Turn::new("a.txt", "scripted:s.toml", vec![text("x"), call("a", "read", "{}"), call("b", "list", "{}")])
            .with_results(vec![
                (vec![Content::text("{{input}}"), image("image/png"), Content::text("B")], false),
                (vec![image("image/png")], false),
            ]);
    let more = |said| Turn::new(said, "scripted:s.toml", vec![text("y")]);
    Talk::new("", &[], vec![first, more("two"), more("three"), more("four")])
}

#[tokio::test]
async fn the_reply_is_the_one_whose_number_is_that_of_the_replies_so_far() {
    let talk = talk();
    let first = ask(SCRIPT, &talk, 0).await.unwrap();
    let arguments = r#"{"at":"2026-01-02","deep":[{"a":true,"b":"(none)"}],"n":1.0,"path":"a.txt"}"#;
    assert_eq!(
        first.content,
        [text("Looking at a.txt."), call("scripted_0_0", "read", arguments), call("mine", "list", "{}")]
    );
    assert_eq!(first.stop, StopReason::ToolUse);
    assert_eq!(ask(SCRIPT, &talk, 0).await.unwrap(), first);

    let second = ask(SCRIPT, &talk, 1).await.unwrap();
    assert_eq!(second.content, [text("{{input}}\nB / (none) / (none) / (none) / {{unknown}} / {{")]);
    assert_eq!(second.stop, StopReason::EndTurn);
    assert!(second.usage.input_tokens > first.usage.input_tokens && second.usage.output_tokens > 0);

    assert_eq!(ask(SCRIPT, &talk, 2).await.unwrap_err().class, FailureClass::Network);
    assert_eq!(ask(SCRIPT, &talk, 3).await.unwrap().content, [text("(the script has ended)")]);
}

#[test]
fn scripts_are_checked() {
    for (bad, why) in [
        ("[[replies]]\n", "reply 1 has neither"),
        ("[[replies]]\ntext = \" \"\n", "reply 1 has neither"),
        ("[[replies]]\ntxt = \"x\"\n", "txt"),
        ("[[replies]]\ntext = \"x\"\n[[replies.calls]]\narguments = {}\n", "name"),
        ("replies = 1", "replies"),
    ] {
        let said = Script::parse(bad).unwrap_err();
        assert!(said.contains(why), "{bad}: {said}");
    }
    assert!(Script::parse("").unwrap().replies.is_empty());
}

#[tokio::test]
async fn a_script_is_a_file_within_the_folder() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("agents");
    std::fs::create_dir_all(folder.join("scripts")).unwrap();
    std::fs::write(root.path().join("outside.toml"), SCRIPT).unwrap();
    std::fs::write(folder.join("scripts/in.toml"), SCRIPT).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(root.path().join("outside.toml"), folder.join("link.toml")).unwrap();
    let absolute = root.path().join("outside.toml");
    let talk = talk();
    for (file, works) in [
        ("scripts/in.toml", true),
        ("../outside.toml", false),
        ("scripts/../../outside.toml", false),
        ("./scripts/in.toml", false),
        ("link.toml", false),
        ("missing.toml", false),
        ("scripts", false),
        (absolute.to_str().unwrap(), false),
    ] {
        let model = model(&format!("scripted:{file}"));
        let reply = Scripted::in_folder(&folder).call(&model, &talk.prompt(0, 1), Duration::from_secs(1)).await;
        assert_eq!(reply.is_ok(), works, "{file}: {reply:?}");
        if let Err(failure) = reply {
            assert_eq!(failure.class, FailureClass::Rejected, "{file}");
        }
    }
}

#[tokio::test]
async fn a_deployed_stack_refuses_scripts() {
    let talk = talk();
    let refused = Scripted::refused().call(&model("scripted:s.toml"), &talk.prompt(0, 1), Duration::from_secs(1)).await;
    assert_eq!(refused.unwrap_err().class, FailureClass::Rejected);
}

#[test]
fn a_block_of_any_kind_has_a_size() {
    let raw = ReplyBlock::Opaque { raw: "é".repeat(5) };
    assert_eq!(super::tokens(super::written(&[raw, text("abc")])), 2);
}
