//! Values that hold the share of their bytes.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{MemoryFull, MemoryKind, MemoryShare, ProcessMemory};

/// A share that several values hold together. Its bytes are free again when the last of them is
/// dropped.
#[derive(Clone, Debug)]
pub struct SharedMemory(Arc<Mutex<MemoryShare>>);

impl SharedMemory {
    /// Several may hold this share.
    pub fn new(share: MemoryShare) -> Self {
        Self(Arc::new(Mutex::new(share)))
    }

    /// See [`MemoryShare::grow`].
    pub fn grow(&self, bytes: usize) -> Result<(), MemoryFull> {
        self.0.lock().grow(bytes)
    }

    /// See [`MemoryShare::set`].
    pub fn set(&self, bytes: usize) {
        self.0.lock().set(bytes);
    }

    /// See [`MemoryShare::split`].
    pub fn split(&self, bytes: usize) -> MemoryShare {
        self.0.lock().split(bytes)
    }
}

/// A value whose bytes count in the budget as long as it lives.
pub struct CountedValue<T> {
    value: T,
    memory: SharedMemory,
}

impl<T> CountedValue<T> {
    /// A value with the share that has its bytes.
    pub fn new(value: T, memory: SharedMemory) -> Self {
        Self { value, memory }
    }

    /// A value of a program that has no budget, or that is counted elsewhere.
    pub fn elsewhere(value: T) -> Self {
        let share = ProcessMemory::unlimited().share(MemoryKind::Requests);
        Self::new(value, SharedMemory::new(share))
    }

    /// What is made of the value, with the same share.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> CountedValue<U> {
        CountedValue {
            value: make(self.value),
            memory: self.memory,
        }
    }

    /// The value and its share. The caller keeps the share as long as the value.
    pub fn into_parts(self) -> (T, SharedMemory) {
        (self.value, self.memory)
    }

    /// The share.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }
}

impl<T> CountedValue<Option<T>> {
    /// The value, if there is one.
    pub fn transpose(self) -> Option<CountedValue<T>> {
        let memory = self.memory;
        self.value.map(|value| CountedValue { value, memory })
    }
}

impl<T: AsRef<[u8]> + Send + 'static> CountedValue<T> {
    /// The bytes of the value, which count as long as anybody holds some of them.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for CountedValue<T> {
    fn as_ref(&self) -> &[u8] {
        self.value.as_ref()
    }
}

impl AsRef<str> for CountedValue<String> {
    fn as_ref(&self) -> &str {
        &self.value
    }
}

impl<T> Deref for CountedValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for CountedValue<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for CountedValue<T> {}

impl<T: fmt::Debug> fmt::Debug for CountedValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
