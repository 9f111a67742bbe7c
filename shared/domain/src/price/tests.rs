use super::*;

fn model(name: &str) -> ModelRef {
    name.parse().unwrap()
}

fn dollars(dollars: f64) -> Cost {
    Cost::of_dollars(dollars)
}

fn parse(text: &str) -> Result<Prices, Vec<agent_file::Fault>> {
    agent_file::parse_prices(text, Prices::builtin())
}

/// The table that ships can be read, and no model in it is dearer than one that is not.
#[test]
fn c5_the_table_that_ships_is_sound() {
    let highest = Prices { unknown: Price::HIGHEST, models: BTreeMap::new() };
    let read = agent_file::parse_prices(include_str!("builtin.toml"), &highest).unwrap();
    assert_eq!(&read, Prices::builtin());
    assert_eq!(read.unknown.input, Price::HIGHEST.input);
    assert_eq!(read.unknown.output, Price::HIGHEST.output);
    assert!(read.models.len() > 15);
    for (name, price) in &read.models {
        let Price { input, output, cache_read, cache_write, .. } = *price;
        let dearer = |price: Cost, than: Cost| price > than;
        assert!(!dearer(input, read.unknown.input) && !dearer(output, read.unknown.output), "{name}");
        assert!(cache_read <= input && !dearer(cache_write, read.unknown.cache_write), "{name}");
    }
}

/// Known prices, worked out by hand.
#[test]
fn c5_a_call_costs_what_its_provider_says() {
    let usage = Usage {
        input_tokens: 1_000,
        output_tokens: 200,
        cache_read_tokens: 10_000,
        cache_write_tokens: 2_000,
        incomplete: false,
    };
    let sonnet = Prices::builtin().of(&model("anthropic:claude-sonnet-4-5"));
    assert!(!sonnet.unknown);
    // 1,000 x $3 + 200 x $15 + 10,000 x $0.30 + 2,000 x $3.75, per million
    assert_eq!(sonnet.price.of(&usage), dollars(0.0165));
    let mini = Prices::builtin().of(&model("openai:gpt-4.1-mini-2025-04-14"));
    // 3,000 x $0.40 + 200 x $1.60 + 10,000 x $0.10, per million
    assert_eq!(mini.price.of(&usage), dollars(0.002_52));
    assert_eq!(Prices::builtin().of(&model("scripted:demo.json")).price.of(&usage), Cost::ZERO);
}

#[test]
fn case_54_what_no_table_names_counts_for_as_much_as_the_dearest() {
    let acme = Prices::builtin().of(&model("acme:tiny"));
    assert!(acme.unknown);
    assert_eq!(acme.price, Prices::builtin().unknown);
    let named = parse("[models.\"acme:*\"]\ninput = 0\noutput = 0.5").unwrap().of(&model("acme:tiny"));
    assert!(!named.unknown);
    assert_eq!((named.price.input, named.price.output), (Cost::ZERO, Cost(500_000)));
}

/// Its own name, else the longest beginning.
#[test]
fn c5_the_closest_name_gives_the_price() {
    let table = "[models.\"a:*\"]\ninput = 1\noutput = 1\n[models.\"a:b*\"]\ninput = 2\noutput = 2\n\
                 [models.\"a:bc\"]\ninput = 3\noutput = 3";
    let prices = parse(table).unwrap();
    for (name, expected) in [("a:x", 1.0), ("a:b", 2.0), ("a:bcd", 2.0), ("a:bc", 3.0)] {
        assert_eq!(prices.of(&model(name)).price.input, dollars(expected / 1e6), "{name}");
    }
    assert!(prices.of(&model("b:bc")).unknown);
}

#[test]
fn c5_every_fault_of_a_table_is_reported_with_its_place() {
    let bad = "currency = \"EUR\"\n[models.nameless]\ninput = 1\noutput = 1\n[models.\"a:b\"]\ninput = -1\n\
               max_output = 0\ncache_red = 1\n[models.\"a:c\"]\ninput = inf\noutput = \"1\"";
    let faults = parse(bad).unwrap_err();
    let places: Vec<_> = faults.iter().map(|fault| fault.place.as_str()).collect();
    assert_eq!(
        places,
        [
            "currency",
            "models.\"a:b\".cache_red",
            "models.\"a:b\".input",
            "models.\"a:b\".output",
            "models.\"a:b\".max_output",
            "models.\"a:c\".input",
            "models.\"a:c\".output",
            "models.\"nameless\"",
        ],
        "{faults:#?}"
    );
    assert_eq!(parse("models = 1").unwrap_err()[0].place, "models");
    assert_eq!(parse("unknown = 1").unwrap_err()[0].place, "unknown");
    assert_eq!(parse("[models.\"a:b\"]\ninput = 1\noutput").unwrap_err()[0].place, "line 3");
}

/// Sums of any size stay in what JSON carries exactly.
#[test]
fn c5_money_saturates() {
    let most = Cost::of_dollars(1e9);
    assert_eq!(most.plus(most), most);
    assert_eq!(Price::HIGHEST.at_most(u64::MAX), most);
    assert!(most.dollars() > 9_000.0);
    assert_eq!(Cost::of_dollars(f64::NAN), Cost::ZERO);
    assert_eq!(Cost::of_dollars(-1.0), Cost::ZERO);
    for (cost, shown) in [(0.0, "$0.00"), (5.0, "$5.00"), (0.42, "$0.42"), (0.000_42, "$0.000420")] {
        assert_eq!(dollars(cost).to_string(), shown);
    }
}
