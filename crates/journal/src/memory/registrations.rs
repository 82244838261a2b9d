//! Registered harnesses, in memory.

use std::ops::Bound;

use async_trait::async_trait;

use super::Store;
use crate::Error;
use crate::registration::{NewRegistration, Registered, Registration, RegistrationQuery, Registrations};

#[async_trait]
impl Registrations for Store {
    async fn register(&self, new: NewRegistration) -> Result<(Registration, Registered), Error> {
        let mut inner = self.lock();
        let now_ns = inner.now(&*self.clock);
        if let Some(there) = inner.registrations.get_mut(&new.name) {
            let outcome = there.register_again(&new.spec, now_ns);
            return Ok((there.clone(), outcome));
        }
        let made = new.at(now_ns);
        inner.registrations.insert(made.name.clone(), made.clone());
        Ok((made, Registered::Created))
    }

    async fn registration(&self, name: &str) -> Result<Option<Registration>, Error> {
        Ok(self.lock().registrations.get(name).cloned())
    }

    async fn registrations(&self, query: RegistrationQuery) -> Result<Vec<Registration>, Error> {
        let inner = self.lock();
        let behind = (Bound::Excluded(query.after.as_str()), Bound::Unbounded);
        let found = inner.registrations.range::<str, _>(behind).map(|(_, there)| there);
        let found = found.filter(|there| query.include_retired || there.retired.is_none());
        Ok(found.take(query.limit).cloned().collect())
    }

    async fn retire(&self, name: &str, reason: &str) -> Result<Option<Registration>, Error> {
        let mut inner = self.lock();
        let now_ns = inner.now(&*self.clock);
        Ok(inner.registrations.get_mut(name).map(|there| {
            there.retire(reason, now_ns);
            there.clone()
        }))
    }
}
