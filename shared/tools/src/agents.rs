//! Reads a directory of agent files.
//!
//! Every `*.toml` at the top of the directory is an agent, but for two: the rules in `policy.toml` hold for all of
//! them, and `prices.toml` says what models cost. What agents refer to lies in folders beneath it. All faults of all files are reported at once:
//! nothing starts with half of its agents or rules (case 13).

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use dormouse_domain::{
    Definition,
    agent_file::{self, Fault},
    policy::Policy,
    price::Prices,
};
use dormouse_engine::ports::Agents;

use crate::schema;

/// The rules of the whole deployment.
const POLICY_FILE: &str = "policy.toml";
/// What models cost.
const PRICES_FILE: &str = "prices.toml";
/// Largest agent file in bytes: 1 MiB.
const MAX_AGENT_BYTES: u64 = 1 << 20;

/// The agents of a deployment, as their files say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentSet {
    agents: BTreeMap<String, Arc<Definition>>,
    /// The rules of each agent, with those of the deployment: asked for with every reply.
    policies: BTreeMap<String, Arc<Policy>>,
    /// The rules of the deployment.
    policy: Arc<Policy>,
}

impl Agents for AgentSet {
    fn get(&self, name: &str) -> Option<Arc<Definition>> {
        self.agents.get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.agents.keys().cloned().collect()
    }

    fn policy(&self, agent: &str) -> Arc<Policy> {
        Arc::clone(self.policies.get(agent).unwrap_or(&self.policy))
    }
}

/// What is wrong with one file, or with the directory. Displays as one line a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFaults {
    /// The file, or the directory.
    pub path: PathBuf,
    /// Its faults, at least one.
    pub faults: Vec<Fault>,
}

impl FileFaults {
    fn one(path: &Path, place: &str, problem: impl Into<String>) -> Self {
        Self { path: path.to_owned(), faults: vec![Fault { place: place.to_owned(), problem: problem.into() }] }
    }
}

impl fmt::Display for FileFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{}: {fault}", self.path.display())?;
        }
        Ok(())
    }
}

/// Reads all agent files of `dir`. `max_timeout_ms` is the longest that a tool call may take on this
/// deployment, in milliseconds.
///
/// # Errors
/// All faults of all files, by file: what [`agent_file::parse`], [`agent_file::parse_policy`] and
/// [`agent_file::parse_prices`] find, an input schema that does not
/// compile or refers to elsewhere, a URL that is none, two agents of one name, a directory that
/// cannot be read or holds no agent.
pub fn load_dir(dir: &Path, max_timeout_ms: u64) -> Result<AgentSet, Vec<FileFaults>> {
    let paths = agent_paths(dir).map_err(|error| vec![FileFaults::one(dir, "directory", error.to_string())])?;
    if paths.is_empty() {
        let problem = "no agent in it; add a file such as ops.toml that says models = [\"provider:model\"]";
        return Err(vec![FileFaults::one(dir, "directory", problem)]);
    }
    let mut agents: BTreeMap<String, (PathBuf, Arc<Definition>)> = BTreeMap::new();
    let mut faulty = Vec::new();
    let policy = load_policy(&dir.join(POLICY_FILE)).unwrap_or_else(|faults| {
        faulty.push(faults);
        Policy::default()
    });
    let prices = load_prices(&dir.join(PRICES_FILE)).unwrap_or_else(|faults| {
        faulty.push(faults);
        Prices::builtin().clone()
    });
    for path in paths {
        match load(&path, max_timeout_ms) {
            Ok(mut definition) => {
                definition.policy.extend(&policy);
                definition.prices = definition.models.iter().map(|model| prices.of(model)).collect();
                if let Some((other, _)) = agents.get(&definition.name) {
                    let problem = format!("{:?} is the agent of {} already", definition.name, other.display());
                    faulty.push(FileFaults::one(&path, "name", problem));
                } else {
                    agents.insert(definition.name.clone(), (path, Arc::new(definition)));
                }
            }
            Err(faults) => faulty.push(FileFaults { path, faults }),
        }
    }
    faulty.extend(unknown_agents(&agents));
    if faulty.is_empty() {
        let agents: BTreeMap<_, _> = agents.into_iter().map(|(name, (_, definition))| (name, definition)).collect();
        let policies = agents.iter().map(|(name, agent)| (name.clone(), Arc::new(agent.policy.clone()))).collect();
        return Ok(AgentSet { agents, policies, policy: Arc::new(policy) });
    }
    Err(faulty)
}

/// Agents to which others are to delegate, and which are not there.
fn unknown_agents(agents: &BTreeMap<String, (PathBuf, Arc<Definition>)>) -> Vec<FileFaults> {
    let mut faulty = Vec::new();
    for (path, definition) in agents.values() {
        for (i, tool) in definition.tools.iter().enumerate() {
            let wanted = tool.delegates_to().unwrap_or_default().iter().enumerate();
            for (n, name) in wanted.filter(|(_, name)| !agents.contains_key(*name)) {
                let known = agents.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                let problem = format!("there is no agent {name:?} in this folder; there are: {known}");
                faulty.push(FileFaults::one(path, &format!("tools[{i}].agents[{n}]"), problem));
            }
        }
    }
    faulty
}

/// Agents that cannot be used, with everything that is wrong with them.
#[derive(Debug, thiserror::Error)]
#[error("the agents cannot be used:\n{0}")]
pub struct Unusable(String);

/// Reads the agents that are deployed with a function: those of `dir`, `/var/task/agents` if none is given.
///
/// # Errors
/// As [`load_dir`], in words. A function that knows no rules does not start.
pub fn load_deployed(dir: Option<&str>, max_timeout_ms: u64) -> Result<AgentSet, Unusable> {
    load_dir(Path::new(dir.unwrap_or("/var/task/agents")), max_timeout_ms).map_err(|files| {
        let faults: Vec<_> = files.iter().map(ToString::to_string).collect();
        Unusable(faults.join("\n"))
    })
}

/// The agent files, sorted. Hidden files are left alone: editors keep their locks in them.
fn agent_paths(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let of_all = path.file_name().is_some_and(|name| name == POLICY_FILE || name == PRICES_FILE);
        if !hidden && !of_all && path.extension().is_some_and(|extension| extension == "toml") && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The rules of the deployment; none if there is no such file.
fn load_policy(path: &Path) -> Result<Policy, FileFaults> {
    load_if_there(path, agent_file::parse_policy).map(Option::unwrap_or_default)
}

/// What models cost on this deployment; without a file, as this release knows it.
fn load_prices(path: &Path) -> Result<Prices, FileFaults> {
    let parse = |text: &str| agent_file::parse_prices(text, Prices::builtin());
    load_if_there(path, parse).map(|prices| prices.unwrap_or_else(|| Prices::builtin().clone()))
}

/// What `parse` makes of the file, if there is one.
fn load_if_there<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T, Vec<Fault>>) -> Result<Option<T>, FileFaults> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileFaults::one(path, "file", error.to_string())),
        Ok(_) => {}
    }
    let text = read(path).map_err(|problem| FileFaults::one(path, "file", problem))?;
    parse(&text).map(Some).map_err(|faults| FileFaults { path: path.to_owned(), faults })
}

fn load(path: &Path, max_timeout_ms: u64) -> Result<Definition, Vec<Fault>> {
    let text = read(path).map_err(|problem| vec![Fault { place: "file".to_owned(), problem }])?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let (definition, mut faults) = match agent_file::parse(&text, &stem, max_timeout_ms) {
        Ok(definition) => (Some(definition), Vec::new()),
        Err(faults) => (None, faults),
    };
    faults.extend(tool_faults(&text));
    // Runs name the definition by its digest, and a number that has none may hide in a schema.
    if let Some(Err(error)) = definition.as_ref().map(Definition::digest) {
        faults.push(Fault { place: "file".to_owned(), problem: error.to_string() });
    }
    definition.filter(|_| faults.is_empty()).ok_or(faults)
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if bytes > MAX_AGENT_BYTES {
        return Err(format!("it has {bytes} bytes; an agent file has at most {MAX_AGENT_BYTES}"));
    }
    fs::read_to_string(path).map_err(|error| error.to_string())
}

/// What `parse` cannot know: whether schemas compile and URLs are ones. Read from the text, so that
/// these faults are reported along with the others; what is not even of the right type is left to
/// `parse`.
fn tool_faults(text: &str) -> Vec<Fault> {
    let table: toml::Table = text.parse().unwrap_or_default();
    let tools = table.get("tools").and_then(toml::Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut faults = Vec::new();
    for (i, tool) in tools.iter().enumerate() {
        if let Some(schema) = tool.get("input_schema").filter(|schema| schema.is_table()) {
            let compiled = serde_json::to_value(schema).map_err(|error| error.to_string());
            if let Err(problem) = compiled.and_then(|schema| schema::compile(&schema)) {
                let problem = format!("not a JSON Schema that can be used: {problem}");
                faults.push(Fault { place: format!("tools[{i}].input_schema"), problem });
            }
        }
        let url = tool.get("http").and_then(|http| http.get("url")).and_then(toml::Value::as_str);
        if let Some(Err(error)) = url.filter(|url| url.starts_with("http")).map(reqwest::Url::parse) {
            faults.push(Fault { place: format!("tools[{i}].http.url"), problem: format!("not a URL: {error}") });
        }
    }
    faults
}

#[cfg(test)]
mod tests;
