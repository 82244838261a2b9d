//! Register, get, list, retire.

use std::time::Duration;

use inspan_host::proto::{HarnessRegistryClient, SessionsClient};
use inspan_wire::v1::{self, HarnessSource, HarnessState, RegisterOutcome, harness_spec::Placement};
use tonic::Code;

use crate::bed::*;

/// R-REG-1: the digest is that of the published vector, the spec never changes, and a retired name comes back as it was.
#[tokio::test]
async fn a_name_has_one_spec_for_ever() {
    let bed = Bed::new().await;
    let spec = at_only("127.0.0.1:9000", "echo");
    let (made, outcome) = bed.register("mine", spec.clone()).await.expect("it is registered");
    let metadata = made.metadata.clone().expect("it has metadata");
    assert_eq!(outcome, RegisterOutcome::Created);
    assert_eq!(made.spec_digest, "sha256:f0c96c8b67d5dc75be557f64ccd59496eaf9cfb102754ee54e9d4c571eb2eafc");
    assert_eq!((made.state(), made.source()), (HarnessState::Active, HarnessSource::Registered));
    assert_eq!((metadata.name.as_str(), made.spec.as_ref()), ("mine", Some(&spec)));
    let random = metadata.uid.strip_prefix("harness-").expect("a uid of its own kind");
    assert!(random.len() == 24 && random.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{random}");
    assert!(metadata.create_time.is_some() && metadata.create_time == metadata.update_time);

    assert_eq!(
        bed.register("mine", spec.clone()).await.expect("it is the same"),
        (made.clone(), RegisterOutcome::Unchanged)
    );
    refused(bed.register("mine", at("127.0.0.1:9000")).await, Code::AlreadyExists, &made.spec_digest);

    let retired = bed.retire("mine", "too old").await.expect("it is there");
    assert_eq!((retired.state(), retired.retire_reason.as_str()), (HarnessState::Retired, "too old"));
    assert!(retired.retire_time.is_some());
    refused(bed.register("mine", at("127.0.0.1:9000")).await, Code::AlreadyExists, "another spec");
    let (back, outcome) = bed.register("mine", spec).await.expect("it comes back");
    assert_eq!(outcome, RegisterOutcome::Reactivated);
    let again = back.metadata.clone().expect("it has metadata");
    assert_eq!((&again.uid, again.create_time), (&metadata.uid, metadata.create_time));
    assert_eq!((back.retire_time, back.retire_reason.as_str(), back.state()), (None, "", HarnessState::Active));
    assert_eq!(bed.get("mine", false).await.expect("it is there"), back);
}

/// R-REG-2: what a spec or a name must not be. R-REG-4: the host's own names and those that are kept for it.
#[tokio::test]
async fn what_cannot_be_registered_is_refused() {
    let bed = Bed::new().await;
    let good = at("127.0.0.1:9000");
    for name in ["", "Mine", "-mine", "my.harness", &"x".repeat(64)] {
        refused(bed.register(name, good.clone()).await, Code::InvalidArgument, "is no label");
    }
    let none = v1::RegisterHarnessRequest { name: "mine".to_owned(), spec: None };
    refused(bed.registry.clone().register_harness(none).await, Code::InvalidArgument, "spec is missing");
    let bad = [
        (v1::HarnessSpec { placement: None, ..good.clone() }, "no placement"),
        (at(""), "address is missing"),
        (at("http://127.0.0.1:9000"), "no such scheme"),
        (v1::HarnessSpec { capabilities: None, ..good.clone() }, "resumability is missing"),
        (
            v1::HarnessSpec {
                capabilities: Some(v1::Capabilities { resumability: 9, ..Default::default() }),
                ..good.clone()
            },
            "resumability is 9",
        ),
        (at_only("127.0.0.1:9000", &"x".repeat(4096)), "4096 is the most"),
    ];
    for (spec, why) in bad {
        refused(bed.register("mine", spec).await, Code::InvalidArgument, why);
    }
    for name in ["echo", "chat", "moves"] {
        refused(bed.register(name, good.clone()).await, Code::AlreadyExists, "the host itself");
    }
    let at_space = v1::SubstratePlacement { atespace: "a".to_owned(), template: "t".to_owned() };
    let substrate = v1::HarnessSpec { placement: Some(Placement::Substrate(at_space)), ..good.clone() };
    refused(bed.register("mine", substrate).await, Code::FailedPrecondition, "this host has none");
    let without_model = Bed::on(&bed.store, Own { model: false, ..Own::default() }).await;
    refused(without_model.register("mine", good).await, Code::FailedPrecondition, "no model");
    assert_eq!(bed.names().await, ["echo", "moves"], "nothing was kept");
}

/// What a client of a later protocol sends.
#[derive(Clone, PartialEq, prost::Message)]
struct LaterRequest {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    spec: Option<LaterSpec>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LaterSpec {
    #[prost(message, optional, tag = "1")]
    remote: Option<v1::RemotePlacement>,
    #[prost(message, optional, tag = "3")]
    capabilities: Option<v1::Capabilities>,
    #[prost(string, tag = "9")]
    colour: String,
}

/// R-REG-2: a spec that says more than this host understands is not kept without what it says more.
#[tokio::test]
async fn fields_that_are_not_known_are_refused() {
    let bed = Bed::new().await;
    let send = async |colour: &str| {
        let known = at("127.0.0.1:9000");
        let remote = Some(v1::RemotePlacement { address: "127.0.0.1:9000".to_owned() });
        let spec = LaterSpec { remote, capabilities: known.capabilities, colour: colour.to_owned() };
        let request = LaterRequest { name: "mine".to_owned(), spec: Some(spec) };
        let address = bed.running.registry.as_ref().expect("there is one").endpoint();
        let channel = tonic::transport::Endpoint::from_shared(address).expect("an address").connect_lazy();
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.expect("it accepts");
        let path = "/agentsessions.v1.HarnessRegistry/RegisterHarness".parse().expect("a path");
        let codec = tonic_prost::ProstCodec::<LaterRequest, v1::RegisterHarnessResponse>::default();
        client.unary(tonic::Request::new(request), path, codec).await
    };
    refused(send("red").await, Code::InvalidArgument, "field 9 of spec");
    assert_eq!(bed.names().await, ["echo", "moves"]);
    let made = send("").await.expect("it says nothing more").into_inner();
    assert_eq!(made.outcome(), RegisterOutcome::Created);
}

/// R-REG-3: what can be retired, and that the first word stands.
#[tokio::test]
async fn retiring_is_done_once() {
    let bed = Bed::new().await;
    bed.register("mine", at("127.0.0.1:9000")).await.expect("it is registered");
    let first = bed.retire("mine", &"r".repeat(1024)).await.expect("it is there");
    assert_eq!(bed.retire("mine", "another").await.expect("it is there"), first);
    refused(bed.retire("mine", &"r".repeat(1025)).await, Code::InvalidArgument, "1024 is the most");
    refused(bed.retire("", "").await, Code::InvalidArgument, "name is missing");
    refused(bed.retire("yours", "").await, Code::NotFound, "no harness yours");
    for own in ["echo", "moves"] {
        refused(bed.retire(own, "").await, Code::FailedPrecondition, "the host itself");
    }
}

/// R-REG-9, and R-REG-4: the host's own names are in the listing, active and not to be changed.
#[tokio::test]
async fn a_listing_merges_both_kinds_by_name() {
    let bed = Bed::new().await;
    for name in ["zz", "a", "f", "n-1", "n"] {
        bed.register(name, at("127.0.0.1:9000")).await.expect("it is registered");
    }
    bed.retire("f", "").await.expect("it is there");
    assert_eq!(bed.names().await, ["a", "echo", "f", "moves", "n", "n-1", "zz"]);
    for include_retired in [false, true] {
        let whole = v1::ListHarnessesRequest { include_retired, ..Default::default() };
        let whole = bed.list(whole).await.expect("it is listed");
        assert_eq!((whole.harnesses.len(), whole.next_page_token.as_str()), (6 + usize::from(include_retired), ""));
        for page_size in 1..9 {
            let (mut seen, mut page_token) = (Vec::new(), String::new());
            loop {
                let request = v1::ListHarnessesRequest { page_size, page_token, include_retired };
                let page = bed.list(request).await.expect("it is listed");
                seen.extend(page.harnesses);
                page_token = page.next_page_token;
                if page_token.is_empty() {
                    break;
                }
            }
            assert_eq!(seen, whole.harnesses, "pages of {page_size}");
        }
    }
    let echo = bed.get("echo", false).await.expect("it is there");
    assert_eq!((echo.state(), echo.source()), (HarnessState::Active, HarnessSource::Static));
    assert_eq!((echo.spec, echo.spec_digest.as_str()), (None, ""));
    let page = v1::ListHarnessesRequest { page_size: 1, ..Default::default() };
    assert_eq!(bed.list(page).await.expect("it is listed").next_page_token, "YQ", "unpadded base64url of the name");
    let negative = v1::ListHarnessesRequest { page_size: -1, ..Default::default() };
    refused(bed.list(negative).await, Code::InvalidArgument, "page_size");
    for token in ["=", "YQ==", "a b", "_w"] {
        let foreign = v1::ListHarnessesRequest { page_token: token.to_owned(), ..Default::default() };
        refused(bed.list(foreign).await, Code::InvalidArgument, "page_token");
    }
}

/// R-REG-10: the answer is there whether or not the harness answers.
#[tokio::test]
async fn observing_is_no_condition_of_the_answer() {
    let bed = Bed::on(&store(), Own { describe_within: Duration::from_millis(200), ..Own::default() }).await;
    let (node, silent) = (Node::start(moves_as("m")).await, Node::start(Silent).await);
    bed.register("mine", at(&node.address)).await.expect("it is registered");
    bed.register("silent", at(&silent.address)).await.expect("it is registered");
    for name in ["mine", "moves"] {
        let plain = bed.get(name, false).await.expect("it is there");
        assert_eq!((plain.observed, plain.observe_error.as_str()), (None, ""));
    }
    let seen = async |name| {
        let found = bed.get(name, true).await.expect("it is there");
        (found.observed.map(|descriptor| descriptor.id), found.observe_error)
    };
    assert_eq!(seen("mine").await, (Some("m".to_owned()), String::new()));
    assert_eq!(seen("moves").await, (Some("moves".to_owned()), String::new()));
    let (none, why) = seen("silent").await;
    assert!(none.is_none() && why.contains("did not describe itself"), "{why}");
    node.gone().await;
    let (none, why) = seen("mine").await;
    assert!(none.is_none() && why.contains("no harness answers"), "{why}");
    refused(bed.get("", true).await, Code::InvalidArgument, "name is missing");
    refused(bed.get("yours", true).await, Code::NotFound, "no harness yours");
}

/// The operator's service is never on the port of the sessions, nor they on its port.
#[tokio::test]
async fn each_service_has_its_own_port() {
    let bed = Bed::new().await;
    let mut on_sessions = HarnessRegistryClient::new(bed.running.channel().await);
    refused(on_sessions.list_harnesses(v1::ListHarnessesRequest::default()).await, Code::Unimplemented, "");
    let address = bed.running.registry.as_ref().expect("there is one").endpoint();
    let channel = tonic::transport::Endpoint::from_shared(address).expect("an address").connect_lazy();
    // A page that a browser on this machine shows is nobody's operator.
    let mut from_a_page = tonic::Request::new(v1::ListHarnessesRequest::default());
    from_a_page.metadata_mut().insert("origin", "http://page.test".parse().expect("a header"));
    let answer = HarnessRegistryClient::new(channel.clone()).list_harnesses(from_a_page).await;
    refused(answer, Code::PermissionDenied, "origin");
    refused(
        SessionsClient::new(channel).list_sessions(v1::ListSessionsRequest::default()).await,
        Code::Unimplemented,
        "",
    );
}
