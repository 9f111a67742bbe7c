//! What the tests of this package share: calls, and a workspace in memory.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use dormouse_domain::{
    CallKey, Principal, RunId, ToolDef,
    agent::{Replay, Target, ToolKind},
    builtin::Builtin,
    entry::CallResult,
    kv::State,
    message::Content,
};
use dormouse_engine::ports::{File, FileInfo, FileVersion, FileWrite, Files, StoreError, ToolCall};
use serde_json::Value;

/// A call of the first attempt, with a timeout of five seconds.
pub(crate) fn call(target: Target, arguments: Value) -> ToolCall {
    let input_schema = match &target {
        Target::Builtin(builtin) => builtin.input_schema(),
        Target::Http { .. } | Target::Agents { .. } => serde_json::json!({"type": "object"}),
    };
    ToolCall {
        run: RunId::from_bits(7),
        owner: Principal { tenant: "t".into(), subject: "s".into() },
        call: CallKey::new(3, 1),
        execution_key: "key-7.3.1".into(),
        attempt: 1,
        tool: ToolDef {
            name: "tool".into(),
            description: String::new(),
            kind: ToolKind::Execute,
            permission: None,
            replay: Replay::Manual,
            reuse_result: false,
            secret: vec![],
            always: std::collections::BTreeMap::new(),
            timeout_ms: 5000,
            input_schema,
            later: false,
            approvers: None,
            arguments: std::collections::BTreeMap::new(),
            target,
        },
        arguments,
        handover: None,
        workspace: "w".into(),
        state: State::default(),
    }
}

/// A call of a builtin.
pub(crate) fn builtin(builtin: Builtin, arguments: Value) -> ToolCall {
    call(Target::Builtin(builtin), arguments)
}

/// The one text of a result, and whether it is an error.
pub(crate) fn text(result: &CallResult) -> (&str, bool) {
    match result {
        CallResult::Returned { content, is_error } => match content.as_slice() {
            [Content::Text { text }] => (text, *is_error),
            other => panic!("not one text: {other:?}"),
        },
        CallResult::NotSent { .. } | CallResult::Unknown { .. } | CallResult::Later {} => {
            panic!("no answer: {result:?}")
        }
    }
}

/// A workspace named `w` in memory.
#[derive(Default)]
pub(crate) struct MemoryFiles {
    files: Mutex<BTreeMap<String, File>>,
    pub(crate) down: AtomicBool,
}

impl MemoryFiles {
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let memory = Self::default();
        for (path, content) in files {
            memory.put(path, content);
        }
        memory
    }

    pub(crate) fn put(&self, path: &str, content: &str) {
        let mut files = self.files.lock().unwrap();
        let version = files.get(path).map_or(1, |file| file.version + 1);
        files.insert(path.to_owned(), File { content: content.to_owned(), version });
    }

    /// Writes as the store does: only at the expected version.
    pub(crate) fn write(&self, write: &FileWrite) -> bool {
        assert_eq!(write.workspace, "w");
        let version = self.files.lock().unwrap().get(&write.path).map(|file| file.version);
        let expected = match write.expect {
            FileVersion::Absent => None,
            FileVersion::At(version) => Some(version),
        };
        if version == expected {
            self.put(&write.path, &write.content);
        }
        version == expected
    }

    pub(crate) fn content(&self, path: &str) -> Option<String> {
        self.files.lock().unwrap().get(path).map(|file| file.content.clone())
    }

    fn check(&self, workspace: &str) -> Result<(), StoreError> {
        assert_eq!(workspace, "w");
        if self.down.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("throttled".into()));
        }
        Ok(())
    }
}

#[async_trait]
impl Files for MemoryFiles {
    async fn file(&self, workspace: &str, path: &str) -> Result<Option<File>, StoreError> {
        self.check(workspace)?;
        Ok(self.files.lock().unwrap().get(path).cloned())
    }

    async fn files(&self, workspace: &str) -> Result<Vec<FileInfo>, StoreError> {
        self.check(workspace)?;
        let files = self.files.lock().unwrap();
        let info = |(path, file): (&String, &File)| FileInfo {
            path: path.clone(),
            bytes: file.content.len() as u64,
            version: file.version,
        };
        Ok(files.iter().map(info).collect())
    }
}
