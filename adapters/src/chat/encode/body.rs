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

/// A request body that is being written.
pub(super) struct BodyWriter<'o> {
    pub(super) out: Vec<u8>,
    fixed: &'o [(String, String)],
    written: Vec<&'static str>,
}

impl<'o> BodyWriter<'o> {
    pub(super) fn new(fixed: &'o [(String, String)], capacity: usize) -> Self {
        let mut out = Vec::with_capacity(capacity);
        out.push(b'{');
        Self {
            out,
            fixed,
            written: Vec::new(),
        }
    }

    /// Begins a field; the caller writes its value.
    pub(super) fn key(&mut self, name: &'static str) {
        self.claim(name);
        json::key(&mut self.out, name);
    }

    /// Reserves the name of a field that is written later.
    pub(super) fn claim(&mut self, name: &'static str) {
        self.written.push(name);
    }

    pub(super) fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) {
        self.key(name);
        json::push(&mut self.out, value);
    }

    pub(super) fn raw_field(&mut self, name: &'static str, json: &str) {
        self.claim(name);
        json::raw_field(&mut self.out, name, json);
    }

    /// Writes a field if the provider accepts it, else notes that it was dropped.
    pub(super) fn field_if<T: Serialize>(
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

    /// Writes an object with one key, and with the other keys of the fixed field of
    /// that name.
    pub(super) fn object(&mut self, name: &'static str, key: &str, value: Value) {
        let fixed = self.fixed.iter().find(|(fixed, _)| fixed == name);
        let mut object: Map<String, Value> = fixed
            .and_then(|(_, json)| serde_json::from_str(json).ok())
            .unwrap_or_default();
        object.insert(key.to_owned(), value);
        self.field(name, &object);
    }

    /// Writes the fixed fields that have been neither written nor claimed.
    pub(super) fn push_fixed_fields(&mut self) {
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
