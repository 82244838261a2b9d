//! Sessions that wait for a person: deciding one, listing them, and what they cost while they wait, with few and with
//! ten thousand.

use std::path::Path;
use std::time::Instant;

use async_trait::async_trait;
use inspan_harness::serve::{Listener, serve};
use inspan_harness::{Failure as HarnessFailure, Harness, Sink, Start};
use inspan_host::proto::{AsksClient, SessionsClient};
use inspan_wire::{inspan_v1, v1};
use tonic::transport::Channel;

use crate::frame::{Bar, Bench, Context, Failure, Row};
use crate::host::{Host, create};
use crate::stats::{as_ms, median};

pub(crate) const BENCH: Bench = Bench {
    name: "parked",
    what: "10,000 sessions that wait for a person: deciding one, the first page of the inbox, memory",
    run,
};

/// Clients that park sessions side by side.
const CLIENTS: usize = 32;
const MEMORY_MB_MAX: f64 = 20.0;

/// Asks for one thing and says how that went.
struct Asking;

#[async_trait]
impl Harness for Asking {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, HarnessFailure> {
        Ok(v1::HarnessDescriptor {
            id: "asking".to_owned(),
            version: "1".to_owned(),
            capabilities: Some(v1::Capabilities {
                resumability: v1::Resumability::StatelessReplay.into(),
                fork_safe: true,
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    async fn run(&self, _: Start, sink: &dyn Sink) -> Result<(), HarnessFailure> {
        let call = v1::ToolCall {
            id: "pay-1".to_owned(),
            tool: "pay".to_owned(),
            mediation: v1::Mediation::RequiresApproval.into(),
            idempotency_key: "pay-1".to_owned(),
            ..Default::default()
        };
        let reply = sink.tool(call).await?;
        sink.output(if reply.result.is_error { "it did not run" } else { "it ran" }).await?;
        Ok(())
    }
}

/// A host with that harness at a socket.
struct Stage {
    host: Host,
    sessions: SessionsClient<Channel>,
    asks: AsksClient<Channel>,
    /// Holds the harness's socket.
    _folder: tempfile::TempDir,
}

impl Stage {
    async fn start(context: &Context, folder: &Path) -> Result<Stage, Failure> {
        // The path of a socket is short: the folder of the run may not be.
        let short = tempfile::Builder::new().prefix("inspan-bench-").tempdir()?;
        let address = format!("unix:{}", short.path().join("h").display());
        let parsed = address.parse().map_err(|_| Failure::new("the socket's path is no address"))?;
        let listener = Listener::bind(&parsed).await?;
        tokio::spawn(serve(Asking, listener, std::future::pending()));
        let script = folder.join("model.yaml");
        std::fs::write(&script, "turns: [{text: \"done\"}]\nloop: true\n")?;
        let (script, harness) = (script.to_string_lossy().into_owned(), format!("asking={address}"));
        let host = Host::start(context, folder, &["--model-script", &script, "--harness", &harness]).await?;
        let (sessions, asks) = (host.sessions().await?, AsksClient::new(host.channel().await?));
        Ok(Stage { host, sessions, asks, _folder: short })
    }

    /// Has `n` more sessions wait.
    async fn park(&self, n: usize) -> Result<(), Failure> {
        let tasks: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let mut sessions = self.sessions.clone();
                let own = n / CLIENTS + usize::from(client < n % CLIENTS);
                tokio::spawn(async move {
                    for _ in 0..own {
                        park(&mut sessions).await?;
                    }
                    Ok::<_, Failure>(())
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(())
    }

    /// How long it takes from the decision on a session to the end of its turn.
    async fn decide(&mut self) -> Result<f64, Failure> {
        let (session, asked) = park(&mut self.sessions).await?;
        let decision = v1::ApproveRequest {
            session: session.clone(),
            execution_id: asked.execution_id,
            tool_call_id: asked.tool_call_id,
            request_seq: asked.request_seq,
            approved: Some(false),
            ..Default::default()
        };
        let began = Instant::now();
        self.sessions.approve(decision).await?;
        let resume = v1::ResumeRequest { session, ..Default::default() };
        let ended = self.sessions.resume(resume).await?.into_inner();
        let took = as_ms(began.elapsed());
        if ended.exec_state() == v1::ExecState::ExecCompleted {
            Ok(took)
        } else {
            Err(Failure::new("it did not go on"))
        }
    }

    /// How long the first page of the inbox takes.
    async fn first_page(&mut self) -> Result<f64, Failure> {
        let began = Instant::now();
        let page = self.asks.list_asks(inspan_v1::ListAsksRequest::default()).await?.into_inner();
        let took = as_ms(began.elapsed());
        if page.asks.len() == 50 { Ok(took) } else { Err(Failure::new(format!("a page of {}", page.asks.len()))) }
    }
}

/// A session that waits.
async fn park(sessions: &mut SessionsClient<Channel>) -> Result<(String, v1::ApprovalRef), Failure> {
    let session = create(sessions, "asking").await?;
    let inputs = vec![v1::Message::text("user", "pay the bill")];
    let request = v1::ExecRequest { session: session.clone(), inputs, ..Default::default() };
    let mut stream = sessions.exec(request).await?.into_inner();
    let mut asked = None;
    while let Some(update) = stream.message().await? {
        if let Some(v1::exec_update::Update::Session(session)) = update.update {
            asked = session.pending_approval;
        }
    }
    asked.map(|asked| (session, asked)).ok_or_else(|| Failure::new("a session that does not wait"))
}

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let (few_folder, many_folder) = (context.fresh("parked-few")?, context.fresh("parked-many")?);
    let size = context.size(10_000, 1_000);
    let rounds = context.size(200, 30);
    context.block_on(async {
        let mut few = Stage::start(context, &few_folder).await?;
        let mut many = Stage::start(context, &many_folder).await?;
        few.park(10).await?;
        // Whatever a first turn loads is there before the idle host is weighed.
        for _ in 0..10 {
            many.decide().await?;
        }
        let idle = many.host.memory_mb("VmRSS")?;
        many.park(size).await?;
        let above = many.host.memory_mb("VmRSS")? - idle;

        let (mut of_few, mut of_many) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            of_few.push(few.decide().await?);
            of_many.push(many.decide().await?);
        }
        let name = "deciding one of 10,000 parked sessions, p50 / one of 10";
        let decided = Row::limit(name, "ms", median(&of_many), median(&of_few), Bar::AtMost(1.3));

        few.park(90).await?;
        let (mut of_few, mut of_many) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            of_few.push(few.first_page().await?);
            of_many.push(many.first_page().await?);
        }
        let name = "first page of 10,000 asks, p50 / of 100";
        let listed = Row::limit(name, "ms", median(&of_many), median(&of_few), Bar::AtMost(1.5));
        let name = "10,000 parked sessions, memory above an idle host / 20 MB";
        Ok(vec![decided, listed, Row::limit(name, "MB", above, MEMORY_MB_MAX, Bar::AtMost(1.0))])
    })
}
