//! The fuzz target of the event parser on a bounded corpus: the golden events, damaged with fixed seeds.

#[path = "../../../fuzz/checks/mutate.rs"]
#[expect(unreachable_pub, reason = "shared with the fuzz workspace")]
mod mutate;
#[path = "../../../fuzz/checks/parse_event.rs"]
#[expect(unreachable_pub, reason = "shared with the fuzz workspace")]
mod parse_event;

use inspan_wire::parse;
use mutate::Random;

#[test]
fn damaged_events_are_errors_or_events() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("vectors/golden-vectors.json")).expect("the vectors are JSON");
    let groups = ["record_vectors", "event_byte_vectors", "chain_vectors", "legacy_execution_id_vectors"];
    let events = groups.iter().flat_map(|group| vectors[group].as_array().expect("a group"));
    let mut seeds: Vec<Vec<u8>> = events.map(|vector| vector["event"].to_string().into_bytes()).collect();
    for call in vectors["model_input_hash_vectors"].as_array().expect("a group") {
        seeds.push(serde_json::json!({ "model": call["model_call"] }).to_string().into_bytes());
    }
    let mut read = 0;
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let (one, other) = (random.below(seeds.len()), random.below(seeds.len()));
        let text = mutate::mutate(&seeds[one], &seeds[other], &mut random);
        parse_event::check(&text);
        read += usize::from(parse::event(&text).is_ok());
    }
    // Damage that always breaks the text would test the first byte only.
    assert!(read > 1_000, "{read} of 20,000 damaged events were still read");
    seeds.iter().for_each(|seed| parse_event::check(seed));
}
