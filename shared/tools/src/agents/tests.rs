use tempfile::TempDir;

use super::*;

const TIMEOUT: u64 = 60_000;

fn dir(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

/// The faults as they are printed, without the directory's own path.
fn faults(dir: &TempDir) -> String {
    let lines: Vec<_> = load_dir(dir.path(), TIMEOUT).unwrap_err().iter().map(ToString::to_string).collect();
    lines.join("\n").replace(&format!("{}/", dir.path().display()), "")
}

const MODELS: &str = "models = [\"scripted:scripts/a.toml\"]\n";

#[test]
fn toml_files_at_the_top_are_agents() {
    let named = format!("name = \"boss\"\n{MODELS}");
    let dir = dir(&[
        ("ops.toml", MODELS),
        ("b.toml", &named),
        ("scripts/a.toml", "reply = 1"),
        ("README.md", "x"),
        (".#ops.toml", "x"),
    ]);
    let agents = load_dir(dir.path(), TIMEOUT).unwrap();
    assert_eq!(agents.names(), ["boss", "ops"]);
    assert_eq!(agents.get("boss").unwrap().name, "boss");
    assert!(agents.get("b").is_none());
}

#[test]
fn all_faults_of_all_files_at_once() {
    let schemas = format!(
        "{MODELS}wiat = 1\n\
         [[tools]]\nname = \"ok\"\nhttp = {{ url = \"https://example.com/\" }}\n\
         [[tools]]\nname = \"a\"\nhttp = {{ url = \"http://[\" }}\ninput_schema = {{ required = \"env\" }}\n\
         [[tools]]\nname = \"b\"\nhttp = {{ url = \"http://x/\" }}\n\
         input_schema = {{ properties = {{ p = {{ \"$ref\" = \"https://example.com/p.json\" }} }} }}\n"
    );
    let twice = format!("name = \"ops\"\n{MODELS}");
    let dir = dir(&[("bad.toml", &schemas), ("ops.toml", MODELS), ("other.toml", &twice), ("torn.toml", "models = [")]);
    fs::write(dir.path().join("latin.toml"), b"# \xe9").unwrap();
    let faults = faults(&dir);
    for part in [
        "bad.toml: wiat: unknown key",
        "bad.toml: tools[1].input_schema: not a JSON Schema that can be used: ",
        "bad.toml: tools[1].http.url: not a URL: ",
        "bad.toml: tools[2].input_schema: not a JSON Schema that can be used: ",
        "latin.toml: file: ",
        "other.toml: name: \"ops\" is the agent of ops.toml already",
        "torn.toml: line 1: ",
    ] {
        assert!(faults.lines().any(|line| line.starts_with(part)), "{part} missing in:\n{faults}");
    }
    assert_eq!(faults.lines().count(), 7, "{faults}");
}

/// A number that has no canonical form would leave the definition without the digest it is stored under.
#[test]
fn a_definition_without_a_digest_is_refused() {
    let text = format!(
        "{MODELS}[[tools]]\nname = \"a\"\nhttp = {{ url = \"http://x/\" }}\ninput_schema = {{ maximum = 9007199254740993 }}\n"
    );
    let faults = faults(&dir(&[("a.toml", &text)]));
    assert!(faults.starts_with("a.toml: ") && faults.contains("9007199254740993"), "{faults}");
}

#[test]
fn a_directory_without_agents_says_what_to_do() {
    let empty = dir(&[("scripts/a.toml", "x = 1")]);
    let faults = load_dir(empty.path(), TIMEOUT).unwrap_err();
    assert!(faults[0].to_string().contains("add a file such as ops.toml"), "{}", faults[0]);
    let faults = load_dir(&empty.path().join("nowhere"), TIMEOUT).unwrap_err();
    assert!(faults[0].to_string().contains("nowhere: directory: "), "{}", faults[0]);
}

#[test]
fn a_file_is_bounded() {
    let large = format!("{MODELS}system = \"{}\"", "x".repeat(MAX_AGENT_BYTES as usize));
    assert!(faults(&dir(&[("a.toml", &large)])).contains("at most 1048576"));
}

/// Case 13: one set of rules for all agents, and no agent without it.
#[test]
fn case_13_a_deployments_rules_are_every_agents() {
    let own = format!(
        "{MODELS}[[policy.deny]]\ntool = \"t\"\nbecause = \"mine\"\n[[tools]]\nname = \"t\"\nhttp = {{ url = \"http://x/\" }}\n"
    );
    let rules = "[[deny]]\ntool = \"*\"\nargs = { env = \"prod*\" }\nbecause = \"all\"\nmatches = [{ env = \"prod\" }]\n\
                 [[floor]]\ntool = \"*\"\nargs = { \"*\" = { path = \"billing/**\" } }\nbecause = \"money\"\n";
    let whole = dir(&[("a.toml", MODELS), ("b.toml", &own), ("policy.toml", rules)]);
    let agents = load_dir(whole.path(), TIMEOUT).unwrap();
    assert_eq!(agents.names(), ["a", "b"]);
    let counts = |policy: &Policy| (policy.deny.len(), policy.floor.len());
    assert_eq!(counts(&agents.get("a").unwrap().policy), (1, 1));
    assert_eq!(counts(&agents.get("b").unwrap().policy), (2, 1));
    assert_eq!(counts(&agents.policy("b")), (2, 1));
    // An agent that is gone is still held to what holds for all.
    assert_eq!(counts(&agents.policy("gone")), (1, 1));

    let broken = "deny = 5\n[[floor]]\ntool = \"*\"\nargs = { x = { glob = \"a\" } }\n[[flor]]\ntool = \"t\"\n";
    let wrong = "[[deny]]\ntool = \"*\"\nargs = { env = \"prod*\" }\nbecause = \"b\"\nmatches = [{ env = \"dev\" }, { env = \"prod\" }]\n\
                 does_not_match = [{ env = \"production\" }]\n";
    for (rules, expected) in [
        (broken, vec!["flor: unknown key", "deny: ", "floor[0].because: ", "floor[0].args.x: "]),
        (wrong, vec!["deny[0].matches[0]: ", "deny[0].does_not_match[0]: "]),
        ("[[deny]\n", vec!["line 1: "]),
    ] {
        let broken = dir(&[("a.toml", MODELS), ("policy.toml", rules)]);
        let faults = faults(&broken);
        for part in &expected {
            assert!(
                faults.lines().any(|line| line.starts_with(&format!("policy.toml: {part}"))),
                "{part} in:\n{faults}"
            );
        }
        assert_eq!(faults.lines().count(), expected.len(), "{faults}");
    }
    let folder = dir(&[("a.toml", MODELS), ("policy.toml/x", "")]);
    assert!(faults(&folder).starts_with("policy.toml: file: "));
}

/// C5: what the deployment says of a model's price is frozen with each agent that has it.
#[test]
fn c5_a_deployment_says_what_its_models_cost() {
    let models = "models = [\"acme:one\", \"scripted:x\", \"acme:two\"]\n";
    let prices = "[models.\"acme:one\"]\ninput = 2\noutput = 4.5\nmax_output = 10\n";
    let read = |files: &[(&str, &str)]| load_dir(dir(files).path(), TIMEOUT).unwrap().get("a").unwrap().prices.clone();
    let [one, scripted, two] = &read(&[("a.toml", models), ("prices.toml", prices)])[..] else { panic!() };
    assert_eq!((one.price.input.0, one.price.output.0, one.price.max_output), (2_000_000, 4_500_000, 10));
    assert!(!one.unknown && !scripted.unknown && two.unknown);
    assert_eq!(scripted.price.output.0, 0);
    assert!(read(&[("a.toml", models)])[0].unknown);

    let broken = dir(&[("a.toml", models), ("prices.toml", "[models.\"acme:one\"]\ninput = \"2\"\n")]);
    assert_eq!(faults(&broken).lines().count(), 2, "{}", faults(&broken));
    assert!(faults(&broken).starts_with("prices.toml: models.\"acme:one\".input: must be a number"));
    assert!(faults(&dir(&[("a.toml", models), ("prices.toml/x", "")])).starts_with("prices.toml: file: "));
}

/// D6: whoever is to be delegated to is there.
#[test]
fn d6_agents_that_are_delegated_to_exist() {
    let lead = format!("{MODELS}[[tools]]\nbuiltin = \"delegate\"\nagents = [\"a\", \"lead\", \"gone\"]\n");
    let broken = faults(&dir(&[("a.toml", MODELS), ("lead.toml", &lead)]));
    assert_eq!(broken, "lead.toml: tools[0].agents[2]: there is no agent \"gone\" in this folder; there are: a, lead");
    load_dir(dir(&[("a.toml", MODELS), ("lead.toml", &lead), ("gone.toml", MODELS)]).path(), TIMEOUT).unwrap();
}
