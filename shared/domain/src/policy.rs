//! Whether a call may run: the one place that says so (A6).
//!
//! [`authorize`] is pure and looks at nothing but its arguments; the model has no say. The first
//! step that matches wins (A7), in the order of its body.

use serde::{Deserialize, Serialize};

use crate::agent::{Mode, Permission, ToolDef, ToolKind};

/// What may become of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Allow,
    /// It waits for a person.
    Ask,
    /// It is refused.
    Deny,
}

/// A verdict and the reason for it, in words a person can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The verdict.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
}

impl Ruling {
    fn new(verdict: Verdict, reason: String) -> Self {
        Self { verdict, reason }
    }
}

/// Says what may become of a call of `tool` under `mode`.
#[must_use]
pub fn authorize(tool: &ToolDef, mode: Mode) -> Ruling {
    let name = &tool.name;
    // 1. What is forbidden is forbidden in every mode.
    if tool.permission == Some(Permission::Deny) {
        return Ruling::new(Verdict::Deny, format!("the agent file denies {name}"));
    }
    // 2. Planning changes nothing.
    if mode == Mode::Plan && tool.kind.mutates() {
        return Ruling::new(Verdict::Deny, format!("mode plan refuses {name}, which changes things"));
    }
    // 4. A person chose to be asked nothing. (3 is the safety floor's place, 5 that of standing rules.)
    if mode == Mode::Yolo {
        return Ruling::new(Verdict::Allow, "mode yolo runs every tool".to_owned());
    }
    // 6. What the agent file says of this tool.
    match tool.permission {
        Some(Permission::Allow) => return Ruling::new(Verdict::Allow, format!("the agent file allows {name}")),
        Some(Permission::Ask) => return Ruling::new(Verdict::Ask, format!("the agent file asks for {name}")),
        Some(Permission::Deny) | None => {}
    }
    // 7. What the mode says of this kind of tool.
    match (tool.kind, mode) {
        (ToolKind::Read, Mode::Plan | Mode::Normal | Mode::AutoEdit | Mode::Yolo) => {
            Ruling::new(Verdict::Allow, format!("{name} only reads"))
        }
        (ToolKind::Edit, Mode::AutoEdit | Mode::Yolo) => Ruling::new(Verdict::Allow, format!("mode {mode} runs edits")),
        (ToolKind::Edit, Mode::Plan | Mode::Normal) | (ToolKind::Execute, _) => {
            Ruling::new(Verdict::Ask, format!("mode {mode} asks for {name}, which changes things"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Replay, Target};

    fn tool(kind: ToolKind, permission: Option<Permission>) -> ToolDef {
        ToolDef {
            name: "t".into(),
            description: String::new(),
            kind,
            permission,
            replay: Replay::Manual,
            reuse_result: false,
            timeout_ms: 1,
            input_schema: serde_json::json!({}),
            target: Target::Http { url: "http://x".into() },
            approvers: None,
        }
    }

    /// C1 and A7: every mode, kind and permission.
    #[test]
    fn a7_c1_verdict_table() {
        use Mode::{AutoEdit, Normal, Plan, Yolo};
        use Permission as P;
        use ToolKind::{Edit, Execute, Read};
        use Verdict::{Allow, Ask, Deny};
        let modes = [Plan, Normal, AutoEdit, Yolo];
        for (kind, permission, expected) in [
            (Read, None, [Allow, Allow, Allow, Allow]),
            (Edit, None, [Deny, Ask, Allow, Allow]),
            (Execute, None, [Deny, Ask, Ask, Allow]),
            (Read, Some(P::Allow), [Allow, Allow, Allow, Allow]),
            (Edit, Some(P::Allow), [Deny, Allow, Allow, Allow]),
            (Execute, Some(P::Allow), [Deny, Allow, Allow, Allow]),
            (Read, Some(P::Ask), [Ask, Ask, Ask, Allow]),
            (Edit, Some(P::Ask), [Deny, Ask, Ask, Allow]),
            (Execute, Some(P::Ask), [Deny, Ask, Ask, Allow]),
            (Read, Some(P::Deny), [Deny; 4]),
            (Edit, Some(P::Deny), [Deny; 4]),
            (Execute, Some(P::Deny), [Deny; 4]),
        ] {
            for (mode, verdict) in modes.into_iter().zip(expected) {
                let ruling = authorize(&tool(kind, permission), mode);
                assert_eq!(ruling.verdict, verdict, "{kind:?} {permission:?} {mode}: {}", ruling.reason);
            }
        }
    }
}
