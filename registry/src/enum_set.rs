//! A set of values of an enum, written as a list in TOML.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use strum::VariantArray;

/// A set of values of an enum with fewer than 32 values, one bit for each value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EnumSet<T> {
    /// Bytes instead of a number, which would have to be aligned: it makes an enum that holds
    /// a set smaller.
    bytes: [u8; 4],
    of: PhantomData<T>,
}

/// An enum whose values an [`EnumSet`] can hold.
pub trait EnumSetValue: VariantArray + Copy + PartialEq {}

impl<T: VariantArray + Copy + PartialEq> EnumSetValue for T {}

impl<T: EnumSetValue> Default for EnumSet<T> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T: EnumSetValue> EnumSet<T> {
    /// The empty set.
    pub const fn empty() -> Self {
        Self::from_bits(0)
    }

    /// The set of all values.
    pub const fn all() -> Self {
        Self::from_bits((1 << T::VARIANTS.len()) - 1)
    }

    const fn from_bits(bits: u32) -> Self {
        Self {
            bytes: bits.to_ne_bytes(),
            of: PhantomData,
        }
    }

    const fn bits(self) -> u32 {
        u32::from_ne_bytes(self.bytes)
    }

    /// The values of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self::from_bits(self.bits() | other.bits())
    }

    /// The values of this set that the other one lacks.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self::from_bits(self.bits() & !other.bits())
    }

    /// Whether the set has no value.
    pub fn is_empty(self) -> bool {
        self.bits() == 0
    }

    /// Whether the value is in the set.
    pub fn contains(self, value: T) -> bool {
        self.bits() & bit(value) != 0
    }

    /// The values, in the order of their definition.
    pub fn iter(self) -> impl Iterator<Item = T> {
        let values = T::VARIANTS.iter().copied();
        values.filter(move |value| self.contains(*value))
    }

    /// The set with the value added.
    #[must_use]
    pub fn with(self, value: T) -> Self {
        Self::from_bits(self.bits() | bit(value))
    }

    /// The set with the value removed.
    #[must_use]
    pub fn without(self, value: T) -> Self {
        Self::from_bits(self.bits() & !bit(value))
    }
}

fn bit<T: EnumSetValue>(value: T) -> u32 {
    let index = T::VARIANTS.iter().position(|known| *known == value);
    index.map_or(0, |index| 1 << index)
}

impl<T: EnumSetValue> fmt::Debug for EnumSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Set({:b})", self.bits())
    }
}

impl<'de, T: EnumSetValue + Deserialize<'de>> Deserialize<'de> for EnumSet<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let values = Vec::<T>::deserialize(from)?;
        Ok(values.into_iter().fold(Self::empty(), Self::with))
    }
}

impl<T: JsonSchema> JsonSchema for EnumSet<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("EnumSet_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let of_value = generator.subschema_for::<T>();
        json_schema!({"type": "array", "items": of_value})
    }
}

impl<T: EnumSetValue + Serialize> Serialize for EnumSet<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}
