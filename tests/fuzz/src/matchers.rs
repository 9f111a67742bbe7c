//! Arguments of calls, against rules.

use std::{collections::BTreeMap, sync::LazyLock};

use dormouse_domain::{
    Millis, Mode, Principal, RequestId, RequestKey, RunId, ToolDef,
    agent::{Permission, Replay, Target, ToolKind},
    agent_file,
    builtin::Builtin,
    json, plan,
    policy::{
        Asked, Covered, Policy, Reading, RuledBy, Scope, StandingRule, Verdict, authorize, forbidden, rule_digest,
    },
};
use serde_json::{Value, json};

use crate::words::Bytes;

/// A rule of each kind, and of each way to name an argument.
const RULES: &str = include_str!("rules.toml");

static POLICY: LazyLock<Policy> =
    LazyLock::new(|| agent_file::parse_policy(RULES).expect("the rules of this package have no fault"));

const MODES: [Mode; 4] = [Mode::Plan, Mode::Normal, Mode::AutoEdit, Mode::Yolo];

/// Judges a call. The first bytes say of which tool, which rules there are and which is added; the rest is the text of
/// its arguments, as a model wrote it, or where that is no JSON object, the one argument `x`.
///
/// No argument makes judging panic or hang, and it says the same each time. What is canonical stays as it is. Another rule
/// never allows more, nor does a narrower mode. What is forbidden is denied, and what is on the floor asks, whatever the
/// mode, the tool's permission or a standing rule for exactly this call says.
pub fn matchers(data: &[u8]) {
    let mut bytes = Bytes(data);
    let tool = tool(&mut bytes);
    let (rules, added) = (bytes.number(), bytes.byte());
    let Some(text) = bytes.rest() else { return };
    let Some(arguments) = arguments(text) else { return };
    let policy = some_of(rules);
    let standing = [StandingRule { what: exactly(&tool, &arguments), ..standing(&tool) }];
    let asked = |policy: &Policy, mode, standing: &[StandingRule]| {
        authorize(&Asked { tool: &tool, arguments: &arguments, mode, policies: &[policy], standing })
    };
    let rulings = MODES.map(|mode| asked(&policy, mode, &standing));
    let narrows = rulings.is_sorted_by(|narrow, wide| narrow.verdict >= wide.verdict);
    assert!(narrows, "a narrower mode allows more: {rulings:?}");

    let place = usize::from(added) % MODES.len();
    let (mode, ruling) = (MODES[place], &rulings[place]);
    assert_eq!(asked(&policy, mode, &standing), *ruling, "not the same twice");
    let stricter = asked(&with_one_more(&policy, added / 4), mode, &standing);
    assert!(stricter.verdict >= ruling.verdict, "another rule allows more: {ruling:?}, {stricter:?}");
    let without = asked(&policy, mode, &[]);
    assert!(without.verdict >= ruling.verdict, "a standing rule refuses: {ruling:?}, {without:?}");
    nothing_passes(&tool, &arguments, &policy, mode);
}

/// What the rules forbid, or the floor holds, under mode `yolo` is so in `mode`, for every permission, whoever allowed it
/// for good.
fn nothing_passes(tool: &ToolDef, arguments: &Value, policy: &Policy, mode: Mode) {
    let judged = |permission, mode| {
        let tool = ToolDef { permission, ..tool.clone() };
        let standing = [StandingRule { what: exactly(&tool, arguments), ..standing(&tool) }];
        let asked = Asked { tool: &tool, arguments, mode, policies: &[policy], standing: &standing };
        (authorize(&asked), forbidden(&tool, arguments, &[policy]).is_some())
    };
    let (widest, is_forbidden) = judged(None, Mode::Yolo);
    assert_eq!(is_forbidden, widest.by == RuledBy::Deny, "one of two ways to ask does not see what is denied");
    if widest.verdict == Verdict::Allow {
        return;
    }
    for permission in [None, Some(Permission::Allow), Some(Permission::Ask), Some(Permission::Deny)] {
        let (ruling, _) = judged(permission, mode);
        assert!(ruling.verdict >= widest.verdict, "{mode}, {permission:?}: {ruling:?}");
    }
}

/// The arguments as a call has them: canonical.
fn arguments(text: &str) -> Option<Value> {
    let arguments = plan::arguments(text).or_else(|_| plan::arguments(&json!({ "x": text }).to_string())).ok()?;
    let canonical = json::canonical(&arguments).expect("arguments have a canonical form");
    assert_eq!(plan::arguments(&canonical).as_ref(), Ok(&arguments), "canonical twice is canonical once");
    Some(arguments)
}

fn tool(bytes: &mut Bytes<'_>) -> ToolDef {
    let target = match bytes.byte() % 4 {
        0 => Target::Builtin(bytes.one_of(&Builtin::ALL)),
        _ => Target::Http { url: "http://tools".to_owned() },
    };
    let readings = [Reading::Any, Reading::Text, Reading::Path, Reading::Command, Reading::Url];
    let x = bytes.one_of(&readings.map(Some).into_iter().chain([None]).collect::<Vec<_>>());
    ToolDef {
        name: bytes.one_of(&["deploy", "bash", "write_file", "fetch"]).to_owned(),
        description: String::new(),
        kind: bytes.one_of(&[ToolKind::Read, ToolKind::Edit, ToolKind::Execute]),
        permission: bytes.one_of(&[None, Some(Permission::Allow), Some(Permission::Ask), Some(Permission::Deny)]),
        replay: Replay::Manual,
        reuse_result: false,
        timeout_ms: 1,
        input_schema: json!({ "type": "object" }),
        arguments: x.map(|reading| ("x".to_owned(), reading)).into_iter().collect(),
        secret: if bytes.byte().is_multiple_of(4) {
            vec!["token".to_owned(), "headers.*".to_owned()]
        } else {
            Vec::new()
        },
        always: BTreeMap::new(),
        target,
        later: false,
        approvers: None,
    }
}

/// Those of the rules whose bits are set.
fn some_of(rules: u64) -> Policy {
    let mut bit = 0;
    let mut chosen = || {
        bit += 1;
        rules >> (bit % 64) & 1 == 1
    };
    let deny = POLICY.deny.iter().filter(|_| chosen()).cloned().collect();
    let floor = POLICY.floor.iter().filter(|_| chosen()).cloned().collect();
    Policy { deny, floor }
}

fn with_one_more(policy: &Policy, added: u8) -> Policy {
    let mut more = policy.clone();
    let (deny, floor) = (&POLICY.deny, &POLICY.floor);
    let place = usize::from(added) % (deny.len() + floor.len());
    match deny.get(place) {
        Some(rule) => more.deny.push(rule.clone()),
        None => more.floor.push(floor[place - deny.len()].clone()),
    }
    more
}

fn exactly(tool: &ToolDef, arguments: &Value) -> Covered {
    Covered::Exact(rule_digest(&tool.name, arguments).expect("arguments have a digest"))
}

fn standing(tool: &ToolDef) -> StandingRule {
    let ann = Principal { tenant: "acme".to_owned(), subject: "ann".to_owned() };
    let run = RunId::from_bits(1);
    StandingRule {
        id: "rule_1".to_owned(),
        tenant: ann.tenant.clone(),
        scope: Scope::Run(run.clone()),
        agent: "ops".to_owned(),
        tool: tool.name.clone(),
        what: Covered::Pattern(BTreeMap::new()),
        about: tool.name.clone(),
        owner: ann.clone(),
        group: None,
        from: RequestId { run, key: RequestKey::new(3, 0) },
        by: ann,
        at: Millis(7),
        revoked: None,
    }
}
