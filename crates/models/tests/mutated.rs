//! The check of the fuzz target, on a bounded and seeded corpus.

#[path = "../../../fuzz/checks/mutate.rs"]
#[expect(unreachable_pub, reason = "shared with the fuzz workspace")]
mod mutate;
#[path = "../../../fuzz/checks/sse.rs"]
#[expect(unreachable_pub, reason = "shared with the fuzz workspace")]
mod sse;

use inspan_testkit::provider::Reply;
use mutate::Random;

#[test]
fn damaged_streams_are_framed_the_same_in_any_chunks() {
    let reply = Reply::text(&["你好", "👩‍🚀"]).usage(1, 2);
    let seeds = [
        reply.openai_events().into_bytes(),
        reply.anthropic_events().replace('\n', "\r\n").into_bytes(),
        b"\xef\xbb\xbf: comment\r\rid: 1\ndata: a\ndata:b\rdata\r\n\r\nevent: e\n\ndata: last".to_vec(),
    ];
    for seed in 0..5_000 {
        let mut random = Random::new(seed);
        let (one, other) = (random.below(seeds.len()), random.below(seeds.len()));
        sse::check(&mutate::mutate(&seeds[one], &seeds[other], &mut random));
    }
}
