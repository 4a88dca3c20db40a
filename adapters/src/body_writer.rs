//! Writes the fields of a request body.
//!
//! A provider or model may have fixed fields in its configuration. Each is sent
//! unless the encoder writes a field of that name; then the encoder's value wins,
//! because it is what the client asked for or what the request needs. In objects
//! that both write, such as `thinking`, the encoder's keys win one by one.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::json;
use crate::notes::Notes;
use crate::turn::Controls;

/// A request body that is being written.
pub(crate) struct BodyWriter<'o> {
    pub(crate) out: Vec<u8>,
    fixed: &'o [(String, String)],
    written: Vec<&'static str>,
}

impl<'o> BodyWriter<'o> {
    pub(crate) fn new(fixed: &'o [(String, String)], capacity: usize) -> Self {
        let mut out = Vec::with_capacity(capacity);
        out.push(b'{');
        Self {
            out,
            fixed,
            written: Vec::new(),
        }
    }

    /// Begins a field; the caller writes its value.
    pub(crate) fn key(&mut self, name: &'static str) {
        self.claim(name);
        json::key(&mut self.out, name);
    }

    /// Reserves the name of a field that is written later.
    pub(crate) fn claim(&mut self, name: &'static str) {
        self.written.push(name);
    }

    pub(crate) fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) {
        self.key(name);
        json::push(&mut self.out, value);
    }

    pub(crate) fn raw_field(&mut self, name: &'static str, json: &str) {
        self.claim(name);
        json::raw_field(&mut self.out, name, json);
    }

    /// Writes a field if the provider accepts it, else notes that it was dropped.
    pub(crate) fn field_if<T: Serialize>(
        &mut self,
        name: &'static str,
        value: Option<T>,
        accepted: bool,
        notes: &mut Notes,
    ) {
        match value {
            Some(value) if accepted => self.field(name, &value),
            Some(_) => notes.add("parameter_dropped", name),
            None => {}
        }
    }

    /// Writes the parameters of sampling. `accepted` says whether the model takes any, and whether
    /// the provider takes penalties.
    pub(crate) fn push_sampling(
        &mut self,
        temperature: Option<f64>,
        controls: &Controls<'_>,
        accepted: (bool, bool),
        notes: &mut Notes,
    ) {
        let (sampling, penalties) = accepted;
        for (name, value, accepted) in [
            ("temperature", temperature, true),
            ("top_p", controls.top_p, true),
            ("presence_penalty", controls.presence_penalty, penalties),
            ("frequency_penalty", controls.frequency_penalty, penalties),
        ] {
            self.field_if(name, value, sampling && accepted, notes);
        }
    }

    /// Writes the tier and the cache key, as far as the provider takes them.
    pub(crate) fn push_services(
        &mut self,
        controls: &Controls<'_>,
        (tier, cache_key): (bool, bool),
        notes: &mut Notes,
    ) {
        self.field_if(
            "service_tier",
            controls.service_tier.as_deref(),
            tier,
            notes,
        );
        if let Some(key) = controls.prompt_cache_key.as_ref().filter(|_| cache_key) {
            self.key("prompt_cache_key");
            key.push_json(&mut self.out);
        }
    }

    /// Writes an object with one key, and with the other keys of the fixed field of
    /// that name.
    pub(crate) fn object(&mut self, name: &'static str, key: &str, value: Value) {
        let fixed = self.fixed.iter().find(|(fixed, _)| fixed == name);
        let mut object: Map<String, Value> = fixed
            .and_then(|(_, json)| serde_json::from_str(json).ok())
            .unwrap_or_default();
        object.insert(key.to_owned(), value);
        self.field(name, &object);
    }

    /// Writes the fixed fields that have been neither written nor claimed.
    pub(crate) fn push_fixed_fields(&mut self) {
        for (name, value) in self.fixed {
            if !self.written.contains(&name.as_str()) {
                self.out.push(b',');
                json::push(&mut self.out, name);
                self.out.push(b':');
                self.out.extend_from_slice(value.as_bytes());
            }
        }
    }
}
