//! The workspace of a fork: its own, as the copy leaves it.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use dormouse_domain::{CallKey, ToolDef};
use dormouse_engine::{
    Engine, Ports, Settings,
    ports::{FileVersion, FileWrite, Files as _, ToolCall, ToolReply, Tools},
};
use dormouse_testkit::{Fault, World, call};
use serde_json::Value;

use super::*;

const WRITER: &str = r#"
    models = ["scripted:x"]
    mode = "yolo"
    [[tools]]
    builtin = "workspace.create"
    [[tools]]
    builtin = "workspace.read"
"#;

/// Writes a file for each call, and says that as many files were written as it is told of calls, fifty for each.
#[derive(Default)]
struct Writer(Mutex<Vec<CallKey>>);

#[async_trait]
impl Tools for Writer {
    fn validate(&self, _: &ToolDef, _: &Value) -> Result<(), String> {
        Ok(())
    }
    async fn call(&self, call: &ToolCall) -> ToolReply {
        let (path, content) = (call.call.to_string(), String::new());
        let file = FileWrite { workspace: call.workspace.clone(), path, content, expect: FileVersion::Absent };
        ToolReply { files: vec![file], ..returned("created").into() }
    }
    async fn files_after(&self, made: &[ToolCall]) -> Result<Vec<(String, String)>, String> {
        *self.0.lock().unwrap() = made.iter().map(|call| call.call).collect();
        let files = made.iter().flat_map(|call| (0..50).map(|n| (format!("{}/{n}", call.call), "text".to_owned())));
        Ok(files.collect())
    }
}

/// X8, D10: what the calls in the copy wrote is there, under the fork's own name, before it is a run; a copy that is
/// broken off between is none.
#[tokio::test]
async fn x8_d10_a_fork_has_the_files_of_its_entry() {
    for broken_at in [None, Some(1), Some(2)] {
        let (world, tools) = (World::default(), Arc::new(Writer::default()));
        let ports = Ports { tools: tools.clone(), ..world.engine.ports().clone() };
        let engine = Engine::new(ports, Settings::new("host".to_owned(), 180_000));
        let run = world.start(agent("ops", WRITER)).await;
        world.models.reply(vec![call("a", "create_file", "{}")]);
        world.models.reply(vec![call("b", "read_file", "{}")]);
        world.models.reply(vec![call("c", "create_file", "{}")]);
        assert_eq!(engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
        let results = world.memory.kinds(&run).into_iter().enumerate().filter(|(_, kind)| *kind == "CallFinished");
        let second = u32::try_from(results.map(|(index, _)| index).nth(1).unwrap()).unwrap();
        let mut faults = vec![Fault::None; broken_at.unwrap_or(0)];
        faults.extend(broken_at.map(|_| Fault::LostBefore));
        world.store.inject(&faults);
        let forked = engine.fork(&ann(), &run, at(second), None).await;
        assert_eq!(*tools.0.lock().unwrap(), [CallKey::new(2, 0)], "those that wrote, up to that entry");
        if broken_at.is_some() {
            assert!(matches!(forked, Err(Problem::Unavailable(_))), "{forked:?}");
            assert_eq!(world.engine.runs(&ann(), None, 10).await.unwrap().items.len(), 1);
            continue;
        }
        let fork = forked.unwrap().run_id;
        assert_eq!(world.memory.files(fork.as_str()).await.unwrap().len(), 50);
        let before = world.memory.files(run.as_str()).await.unwrap();
        assert_eq!(engine.step(&fork, world.deadline()).await.unwrap(), StepReport::Finished);
        assert_eq!(world.memory.files(run.as_str()).await.unwrap(), before, "the other run keeps its own");
    }
}
