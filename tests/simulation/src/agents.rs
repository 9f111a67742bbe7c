//! The agents of a simulation: all replay policies, kinds and permissions, and windows from seconds to a day.

use std::{collections::BTreeMap, sync::Arc};

use dormouse_domain::{
    Definition, agent_file,
    policy::Policy,
    price::{Cost, ModelPrice, Price},
};
use dormouse_engine::ports::Agents;

use crate::dice::Dice;

const TOOLS: [(&str, &str); 8] = [
    ("look", "kind = \"read\"\nreplay = \"safe\""),
    ("edit", "kind = \"edit\"\nreplay = \"idempotent\"\nreuse_result = true"),
    ("ship", "kind = \"execute\""),
    ("send", "kind = \"execute\"\npermission = \"allow\""),
    ("charge", "kind = \"execute\"\npermission = \"allow\"\nreplay = \"idempotent\""),
    ("probe", "kind = \"execute\"\npermission = \"ask\"\nreplay = \"safe\""),
    ("drop", "kind = \"execute\"\npermission = \"deny\""),
    ("ask_user", ""),
];

/// The agents.
pub(crate) struct SimAgents(BTreeMap<String, Arc<Definition>>);

impl SimAgents {
    /// Draws two agents.
    pub(crate) fn draw(dice: &Dice) -> Result<Self, String> {
        let mut agents = BTreeMap::new();
        for name in ["one", "two"] {
            let file = file(dice, name);
            let mut agent = agent_file::parse(&file, name, 600_000).map_err(|faults| format!("{file}: {faults:?}"))?;
            // One call of which nobody knows what it used costs nothing, something, or more than a run may.
            let output = Cost::of_dollars(dice.pick(&[0.0, 0.0, 0.000_01, 0.000_1]));
            for ModelPrice { price, .. } in &mut agent.prices {
                *price = Price { input: Cost::ZERO, output, cache_read: Cost::ZERO, cache_write: Cost::ZERO, ..*price };
            }
            agents.insert(name.to_owned(), Arc::new(agent));
        }
        Ok(Self(agents))
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Definition>> {
        self.0.values().cloned().collect()
    }
}

fn file(dice: &Dice, name: &str) -> String {
    let decide = dice.pick(&["2s", "20s", "90s", "10m", "24h"]);
    let wait = match (dice.chance(500), decide) {
        (true, "2s") => "1s",
        (true, "20s") => "5s",
        (true, _) => dice.pick(&["3s", "20s", "60s"]),
        (false, same) => same,
    };
    let models = dice.pick(&["[\"sim:a\"]", "[\"sim:a\", \"sim:b\"]"]);
    let mode = dice.pick(&["normal", "normal", "normal", "auto_edit", "yolo"]);
    let (expired, late) = (dice.pick(&["move_on", "move_on", "deny"]), dice.pick(&["wake", "next_turn"]));
    let message = dice.pick(&["queue", "supersede"]);
    let turns = dice.pick(&[4, 40]);
    let mut file = format!(
        "models = {models}\nsystem = \"Be good.\"\nmode = \"{mode}\"\nwait = \"{wait}\"\ndecide_within = \"{decide}\"\n\
         on_wait_expired = \"{expired}\"\nlate_decision = \"{late}\"\non_message = \"{message}\"\n\
         [limits]\nturns = {turns}\n"
    );
    for (name, rest) in TOOLS {
        if dice.chance(700) {
            let target = match name {
                "ask_user" => "builtin = \"ask_user\"",
                _ => "http = { url = \"http://tools.invalid\" }",
            };
            let timeout = dice.pick(&["1s", "5s", "20s"]);
            file.push_str(&format!("[[tools]]\nname = \"{name}\"\n{target}\ntimeout = \"{timeout}\"\n{rest}\n"));
        }
    }
    // Each to the other: chains grow until they are too long.
    if dice.chance(250) {
        let (to, questions) = (if name == "one" { "two" } else { "one" }, dice.chance(300));
        file.push_str(&format!("[[tools]]\nbuiltin = \"delegate\"\nagents = [\"{to}\"]\nquestions = {questions}\n"));
    }
    file
}

impl Agents for SimAgents {
    fn get(&self, name: &str) -> Option<Arc<Definition>> {
        self.0.get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn policy(&self, agent: &str) -> Arc<Policy> {
        Arc::new(self.get(agent).map(|agent| agent.policy.clone()).unwrap_or_default())
    }
}
