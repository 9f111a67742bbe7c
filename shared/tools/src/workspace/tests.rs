use std::sync::atomic::Ordering;

use async_trait::async_trait;
use dormouse_engine::ports::{FileInfo, FileVersion};
use serde_json::json;

use super::*;
use crate::testing::{MemoryFiles, builtin, text};

/// Calls a tool and writes what it wants written, as the engine does; the text, and whether it is an
/// error.
async fn play(files: &Arc<MemoryFiles>, tool: Builtin, arguments: Value) -> (String, bool) {
    let reply = Workspace::new(Arc::clone(files) as Arc<dyn Files>).call(tool, &builtin(tool, arguments)).await;
    let (text, is_error) = text(&reply.result);
    assert!(reply.files.is_empty() || !is_error);
    assert!(reply.files.iter().all(|write| files.write(write)), "{:?}", reply.files);
    (text.to_owned(), is_error)
}

/// D10, one conversation over one workspace. `!` marks an error result.
#[tokio::test]
async fn d10_read_create_edit_list_search() {
    use Builtin::{WorkspaceCreate, WorkspaceEdit, WorkspaceGlob, WorkspaceRead, WorkspaceSearch};
    let files = Arc::new(MemoryFiles::default());
    for (tool, arguments, expected) in [
        (WorkspaceGlob, json!({"pattern": "**"}), "[no file matches; the workspace has 0 in all]"),
        (WorkspaceRead, json!({"path": "src/a.rs"}), "!there is no file src/a.rs; list the files"),
        (
            WorkspaceCreate,
            json!({"path": "./src//a.rs", "content": "fn a() {}\nfn b() {}\n"}),
            "created src/a.rs: 20 bytes",
        ),
        (
            WorkspaceCreate,
            json!({"path": "src/x/../a.rs", "content": ""}),
            "!src/a.rs exists already; read it and change it by an edit",
        ),
        (WorkspaceCreate, json!({"path": "../a.rs", "content": ""}), "!the path leads out of the workspace"),
        (WorkspaceCreate, json!({"path": "/a.rs", "content": ""}), "!the path is absolute"),
        (WorkspaceCreate, json!({"path": "notes.md", "content": "é\n"}), "created notes.md: 3 bytes"),
        (WorkspaceRead, json!({"path": "src\\a.rs"}), "fn a() {}\nfn b() {}\n"),
        (WorkspaceRead, json!({"path": "src/a.rs", "from_line": 2, "lines": 5}), "[lines 2 to 2 of 2]\nfn b() {}\n"),
        (WorkspaceRead, json!({"path": "src/a.rs", "from_line": 3}), "!src/a.rs has only 2 lines"),
        (WorkspaceEdit, json!({"path": "src/a.rs", "old": "fn", "new": "pub fn"}), "!`old` occurs 2 times in src/a.rs"),
        (
            WorkspaceEdit,
            json!({"path": "src/a.rs", "old": "fn", "new": "pub fn", "all": true}),
            "edited src/a.rs: 2 replacements, now at line 1, 2",
        ),
        (
            WorkspaceEdit,
            json!({"path": "src/a.rs", "old": "{}\npub", "new": "{\n}\npub"}),
            "edited src/a.rs: 1 replacement, now at line 1-3",
        ),
        (WorkspaceEdit, json!({"path": "src/b.rs", "old": "a", "new": "b"}), "!there is no file src/b.rs"),
        (WorkspaceRead, json!({"path": "src/a.rs"}), "pub fn a() {\n}\npub fn b() {}\n"),
        (WorkspaceGlob, json!({"pattern": "*"}), "notes.md"),
        (WorkspaceGlob, json!({"pattern": "./**/*.rs"}), "src/a.rs"),
        (WorkspaceGlob, json!({"pattern": "a{"}), "!this is no glob pattern"),
        (WorkspaceSearch, json!({"pattern": r"pub fn \w"}), "src/a.rs:1: pub fn a() {\nsrc/a.rs:3: pub fn b() {}"),
        (WorkspaceSearch, json!({"pattern": "é|fn a", "glob": "*.md"}), "notes.md:1: é"),
        (WorkspaceSearch, json!({"pattern": "zebra"}), "[no line matches; files searched: 2]"),
        (WorkspaceSearch, json!({"pattern": "("}), "!the pattern is no regular expression"),
        (WorkspaceSearch, json!({"pattern": "a", "glob": "["}), "!this is no glob pattern"),
        (WorkspaceRead, json!({"file": "src/a.rs"}), "!the arguments do not fit: missing field `path`"),
    ] {
        let (text, is_error) = play(&files, tool, arguments.clone()).await;
        match expected.strip_prefix('!') {
            Some(problem) => assert!(is_error && text.starts_with(problem), "{arguments}: {text}"),
            None => assert_eq!((text.as_str(), is_error), (expected, false), "{arguments}"),
        }
    }
}

#[tokio::test]
async fn a_write_is_bound_to_what_was_read() {
    let files = Arc::new(MemoryFiles::with(&[("a", "one"), ("a", "two")]));
    let workspace = Workspace::new(Arc::clone(&files) as Arc<dyn Files>);
    let edit = builtin(Builtin::WorkspaceEdit, json!({"path": "a", "old": "two", "new": "three"}));
    let reply = workspace.call(Builtin::WorkspaceEdit, &edit).await;
    assert_eq!(reply.files[0].expect, FileVersion::At(2));
    files.put("a", "two and more");
    assert!(!files.write(&reply.files[0]), "another's change was overwritten");
    let again = workspace.call(Builtin::WorkspaceEdit, &edit).await;
    assert!(files.write(&again.files[0]));
    assert_eq!(files.content("a").as_deref(), Some("three and more"));

    let create = builtin(Builtin::WorkspaceCreate, json!({"path": "b", "content": ""}));
    let reply = workspace.call(Builtin::WorkspaceCreate, &create).await;
    assert_eq!(reply.files[0].expect, FileVersion::Absent);
}

#[tokio::test]
async fn sizes_are_bounded() {
    let files =
        Arc::new(MemoryFiles::with(&[("big", &"x\n".repeat(MAX_FILE_BYTES)), ("full", &"x".repeat(MAX_FILE_BYTES))]));
    for (tool, arguments) in [
        (Builtin::WorkspaceRead, json!({"path": "big"})),
        (Builtin::WorkspaceEdit, json!({"path": "big", "old": "x", "new": "y", "all": true})),
        (Builtin::WorkspaceEdit, json!({"path": "full", "old": "x", "new": "yy", "all": true})),
        (Builtin::WorkspaceCreate, json!({"path": "new", "content": "é".repeat(MAX_FILE_BYTES / 2 + 1)})),
    ] {
        let (text, is_error) = play(&files, tool, arguments).await;
        assert!(is_error && text.contains("at most 262144"), "{text}");
    }
    let (text, is_error) = play(&files, Builtin::WorkspaceRead, json!({"path": "full"})).await;
    assert_eq!((text.len(), is_error), (MAX_FILE_BYTES, false));
    let (text, _) = play(&files, Builtin::WorkspaceSearch, json!({"pattern": "x$"})).await;
    let expected = "[lines of which only the first 16384 bytes were searched: 1]\n\
                    [files of more than 262144 bytes, not searched: 1, the first is big]";
    assert!(text.starts_with("full:1: xxx") || text.starts_with("full:1: …xxx"), "{}", &text[..20]);
    assert!(text.ends_with(expected), "{text}");
    let (text, _) = play(&files, Builtin::WorkspaceSearch, json!({"pattern": "y"})).await;
    assert_eq!(text, format!("[no line matches; files searched: 1]\n{expected}"));
}

/// A pattern that is slow on every byte: the timeout holds all the same.
#[tokio::test]
async fn a_slow_search_is_ended_by_the_timeout() {
    let files = Arc::new(MemoryFiles::default());
    for i in 0..200 {
        files.put(&format!("f{i}"), &format!("{}\n", "a".repeat(200)).repeat(1000));
    }
    let mut call = builtin(Builtin::WorkspaceSearch, json!({"pattern": "(?:[a-z]{0,40}){0,20}[0-9]"}));
    call.tool.timeout_ms = 50;
    let start = std::time::Instant::now();
    let reply = Workspace::new(files).call(Builtin::WorkspaceSearch, &call).await;
    assert!(matches!(reply.result, CallResult::NotSent { .. }), "{:?}", reply.result);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[tokio::test]
async fn lists_are_cut_visibly() {
    let files = Arc::new(MemoryFiles::default());
    for i in 0..1203 {
        files.put(&format!("f{i:04}"), "needle\n");
    }
    let (text, _) = play(&files, Builtin::WorkspaceGlob, json!({"pattern": "f*"})).await;
    assert_eq!(text.lines().count(), 1001);
    assert!(text.ends_with("f0999\n[cut: 1203 files match, 1000 are shown; use a narrower pattern]"));
    let (text, _) = play(&files, Builtin::WorkspaceSearch, json!({"pattern": "needle"})).await;
    assert_eq!(text.lines().count(), 201);
    assert!(text.contains("\nf0199:1: needle\n[cut: more lines match than the 200 shown"));
    let (text, _) = play(&files, Builtin::WorkspaceSearch, json!({"pattern": "needle", "glob": "f01*"})).await;
    assert!(text.ends_with("f0199:1: needle"), "{} lines", text.lines().count());
}

/// A workspace that could not be read: known not to have happened (B13).
#[tokio::test]
async fn b13_an_unread_workspace_is_not_a_failure_of_the_tool() {
    let files = Arc::new(MemoryFiles::with(&[("a", "x")]));
    files.down.store(true, Ordering::SeqCst);
    let workspace = Workspace::new(files);
    for (tool, arguments) in [
        (Builtin::WorkspaceRead, json!({"path": "a"})),
        (Builtin::WorkspaceCreate, json!({"path": "b", "content": ""})),
        (Builtin::WorkspaceEdit, json!({"path": "a", "old": "x", "new": "y"})),
        (Builtin::WorkspaceGlob, json!({"pattern": "*"})),
        (Builtin::WorkspaceSearch, json!({"pattern": "x"})),
    ] {
        let reply = workspace.call(tool, &builtin(tool, arguments)).await;
        let CallResult::NotSent { why } = reply.result else { panic!("{:?}", reply.result) };
        assert!(why.contains("throttled") && why.ends_with("try again") && reply.files.is_empty());
    }
}

struct Stuck;

#[async_trait]
impl Files for Stuck {
    async fn file(&self, _: &str, _: &str) -> Result<Option<File>, StoreError> {
        std::future::pending().await
    }
    async fn files(&self, _: &str) -> Result<Vec<FileInfo>, StoreError> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn the_timeout_holds_for_workspace_tools() {
    let mut call = builtin(Builtin::WorkspaceRead, json!({"path": "a"}));
    call.tool.timeout_ms = 20;
    let reply = Workspace::new(Arc::new(Stuck)).call(Builtin::WorkspaceRead, &call).await;
    assert!(matches!(&reply.result, CallResult::NotSent { why } if why.contains("20 ms")), "{:?}", reply.result);
}

/// A question never runs: it suspends the run (A9).
#[tokio::test]
async fn a9_ask_user_is_never_run() {
    let files = Arc::new(MemoryFiles::default());
    let (text, is_error) = play(&files, Builtin::AskUser, json!({"question": "Really?"})).await;
    assert!(is_error && text.contains("answered by a person"));
}

/// X8: the calls that wrote a workspace, made again in their order, leave the same files; what has no place in it
/// says which call it was.
#[tokio::test]
async fn x8_a_workspace_is_made_again_from_its_calls() {
    let create =
        |path: &str, content: &str| builtin(Builtin::WorkspaceCreate, json!({ "path": path, "content": content }));
    let edit = |path: &str, old: &str, new: &str| {
        builtin(Builtin::WorkspaceEdit, json!({ "path": path, "old": old, "new": new }))
    };
    let read = builtin(Builtin::WorkspaceRead, json!({ "path": "nowhere" }));
    let made = [create("a", "one two"), create("./b/c", "x"), edit("a", "two", "three"), read, edit("a", "one", "1")];
    let files = again::files_after(&made).await.unwrap();
    let owned = |path: &str, content: &str| (path.to_owned(), content.to_owned());
    assert_eq!(files, [owned("a", "1 three"), owned("b/c", "x")]);
    assert_eq!(again::files_after(&[]).await, Ok(Vec::new()));
    let why = again::files_after(&[create("a", "one"), edit("a", "two", "three")]).await.unwrap_err();
    assert!(why.starts_with("call 3.1: "), "{why}");
}
