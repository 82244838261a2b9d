//! The four operations on registered harnesses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use inspan_engine::{Catalog as _, Rim, Unserved};
use inspan_journal::{NewRegistration, Registered, Registration, RegistrationQuery};
use inspan_wire::{hex, v1};
use tonic::Code;

use super::Directory;
use super::spec::{Spec, check_name};
use crate::catalog::RESERVED;
use crate::fault::Fault;
use crate::host::outlive;
use crate::page;
use crate::system::System;
use crate::update::timestamp_ns;

/// Bytes of a reason.
const REASON_BYTES_MAX: usize = 1024;

/// The registry of one host.
#[derive(Clone)]
pub(crate) struct Registrar {
    directory: Arc<Directory>,
    /// How long a harness may take to describe itself.
    describe_within: Duration,
}

impl Registrar {
    pub(crate) fn new(directory: Arc<Directory>, describe_within: Duration) -> Registrar {
        Registrar { directory, describe_within }
    }

    /// R-REG-1, R-REG-2: a spec under a name, for ever.
    pub(crate) async fn register(
        &self,
        request: v1::RegisterHarnessRequest,
    ) -> Result<v1::RegisterHarnessResponse, Fault> {
        let name = request.name;
        check_name(&name).map_err(Fault::invalid)?;
        let spec = request.spec.ok_or_else(|| Fault::invalid("spec is missing"))?;
        let spec = Spec::new(spec).map_err(Fault::invalid)?;
        if RESERVED.contains(&name.as_str()) || self.directory.is_own(&name) {
            return Err(taken(format!("{name} is a harness of the host itself: register yours under another name")));
        }
        let agent = self.directory.build(&name, &spec).map_err(|why| {
            Fault::new(Code::FailedPrecondition, format!("harness {name} cannot be served here: {why}"))
        })?;
        let this = self.clone();
        // Whoever asked may go away: what the store has must be known here.
        outlive(async move {
            let new = NewRegistration { name, uid: new_uid(), spec: spec.canonical };
            let (row, outcome) = this.directory.store().register(new).await?;
            let outcome = match outcome {
                Registered::Created => v1::RegisterOutcome::Created,
                Registered::Unchanged => v1::RegisterOutcome::Unchanged,
                Registered::Reactivated => v1::RegisterOutcome::Reactivated,
                Registered::OtherSpec => {
                    return Err(taken(format!(
                        "harness {} is registered with another spec (sha256:{}), and a spec never changes under its name: \
                         choose another name",
                        row.name, row.digest
                    )));
                }
            };
            this.directory.learn(agent);
            Ok(v1::RegisterHarnessResponse { harness: Some(this.view(row)), outcome: outcome.into() })
        })
        .await
    }

    /// R-REG-10: with `observe`, what the harness says of itself now.
    pub(crate) async fn get(&self, request: v1::GetHarnessRequest) -> Result<v1::HarnessRegistration, Fault> {
        let name = named(request.name)?;
        let mut found =
            if self.directory.is_own(&name) { self.view_own(&name) } else { self.view(self.row(&name).await?) };
        if request.observe {
            match self.describe(&name).await {
                Ok(descriptor) => found.observed = Some(descriptor),
                Err(why) => found.observe_error = why,
            }
        }
        Ok(found)
    }

    /// R-REG-9: by name, the host's own and the registered ones together. A name that is both shows as the host's own.
    pub(crate) async fn list(&self, request: v1::ListHarnessesRequest) -> Result<v1::ListHarnessesResponse, Fault> {
        if request.page_size < 0 {
            return Err(Fault::invalid("page_size is negative: leave it out for the default"));
        }
        let limit = page::size(request.page_size);
        let after = name_behind(&request.page_token)?;
        let query =
            RegistrationQuery { after: after.clone(), limit: limit + 1, include_retired: request.include_retired };
        let rows = self.directory.store().registrations(query).await?;
        let mut all: BTreeMap<String, v1::HarnessRegistration> =
            rows.into_iter().map(|row| (row.name.clone(), self.view(row))).collect();
        let own = self.directory.own().names().into_iter().filter(|name| *name > after);
        all.extend(own.map(|name| (name.clone(), self.view_own(&name))));
        let more = all.len() > limit;
        let page: Vec<_> = all.into_iter().take(limit).collect();
        let next_page_token = match page.last() {
            Some((name, _)) if more => URL_SAFE_NO_PAD.encode(name),
            _ => String::new(),
        };
        let harnesses = page.into_iter().map(|(_, harness)| harness).collect();
        Ok(v1::ListHarnessesResponse { harnesses, next_page_token })
    }

    /// R-REG-3: no new sessions from here on.
    pub(crate) async fn retire(&self, request: v1::RetireHarnessRequest) -> Result<v1::HarnessRegistration, Fault> {
        let name = named(request.name)?;
        let reason = request.reason;
        if reason.len() > REASON_BYTES_MAX {
            let bytes = reason.len();
            return Err(Fault::invalid(format!("reason has {bytes} bytes, and {REASON_BYTES_MAX} is the most")));
        }
        if self.directory.is_own(&name) {
            let text = format!("{name} is a harness of the host itself: start the host without it instead");
            return Err(Fault::new(Code::FailedPrecondition, text));
        }
        let this = self.clone();
        outlive(async move {
            let row = this.directory.store().retire(&name, &reason).await?;
            row.map(|row| this.view(row)).ok_or_else(|| unregistered(&name))
        })
        .await
    }

    async fn row(&self, name: &str) -> Result<Registration, Fault> {
        self.directory.store().registration(name).await?.ok_or_else(|| unregistered(name))
    }

    async fn describe(&self, name: &str) -> Result<v1::HarnessDescriptor, String> {
        let agent = self.directory.agent(name).map_err(|unserved| match unserved {
            Unserved::Unservable(why) => why,
            Unserved::Unknown => format!(
                "{name} was registered elsewhere since this host started: register the same spec here, or restart the host"
            ),
        })?;
        match tokio::time::timeout(self.describe_within, agent.harness.describe()).await {
            Ok(answer) => answer.map_err(|failure| failure.to_string()),
            Err(_) => Err(format!("it did not describe itself in {} s", self.describe_within.as_secs_f64())),
        }
    }

    fn view_own(&self, name: &str) -> v1::HarnessRegistration {
        v1::HarnessRegistration {
            metadata: Some(v1::ResourceMetadata { name: name.to_owned(), ..Default::default() }),
            state: v1::HarnessState::Active.into(),
            source: v1::HarnessSource::Static.into(),
            unservable_reason: self.directory.refusal(name).unwrap_or_default(),
            ..Default::default()
        }
    }

    /// A row as callers see it. One that this host cannot use shows why in place of its spec (R-REG-7).
    fn view(&self, row: Registration) -> v1::HarnessRegistration {
        let spec = Spec::stored(&row).and_then(|spec| self.directory.check(&spec).map(|()| spec.message));
        let (spec, unservable_reason) = match spec {
            Ok(spec) => (Some(spec), String::new()),
            Err(why) => (None, why),
        };
        let (state, retire_time, retire_reason) = match row.retired {
            Some(retired) => (v1::HarnessState::Retired, Some(timestamp_ns(retired.at_ns)), retired.reason),
            None => (v1::HarnessState::Active, None, String::new()),
        };
        v1::HarnessRegistration {
            metadata: Some(v1::ResourceMetadata {
                name: row.name,
                uid: row.uid,
                create_time: Some(timestamp_ns(row.create_ns)),
                update_time: Some(timestamp_ns(row.update_ns)),
                ..Default::default()
            }),
            spec,
            spec_digest: format!("sha256:{}", row.digest),
            state: state.into(),
            source: v1::HarnessSource::Registered.into(),
            retire_time,
            retire_reason,
            unservable_reason,
            ..Default::default()
        }
    }
}

fn named(name: String) -> Result<String, Fault> {
    if name.is_empty() { Err(Fault::invalid("name is missing: ListHarnesses gives the names")) } else { Ok(name) }
}

fn taken(text: String) -> Fault {
    Fault::new(Code::AlreadyExists, text)
}

fn unregistered(name: &str) -> Fault {
    Fault::not_found(format!("no harness {name}: ListHarnesses gives the names"))
}

/// `harness-` and 12 random bytes.
fn new_uid() -> String {
    let mut bytes = [0; 12];
    Rim::fill(&System, &mut bytes);
    format!("harness-{}", hex(&bytes))
}

/// The name that a page token stands behind: unpadded base64url of it; empty for the first page.
fn name_behind(token: &str) -> Result<String, Fault> {
    let name = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    name.ok_or_else(|| Fault::invalid("page_token was not given by this host: start again without one"))
}
