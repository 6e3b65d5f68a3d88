//! Values as a file has them: with their place, and absent where they could not be read.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Where something stands: which source, and which bytes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Index among the sources of one load.
    pub source: usize,
    /// First byte.
    pub start: usize,
    /// How many bytes.
    pub length: usize,
}

/// A value and its place.
///
/// What was not written, or was written and could not be read, has no value; in the second case the reader has noted the
/// problem, so that one mistake does not hide the next.
#[derive(Clone)]
pub struct Written<T> {
    /// The value, if there is one.
    pub value: Option<T>,
    /// Its place; for a map or a list the place of its key.
    pub place: Place,
    /// Whether something was written that could not be read.
    unreadable: bool,
}

impl<T> Written<T> {
    /// A value and its place.
    pub fn new(value: T, place: Place) -> Written<T> {
        Written { value: Some(value), place, unreadable: false }
    }

    /// The value as something else, at the same place.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Written<U> {
        Written { value: self.value.map(change), place: self.place, unreadable: self.unreadable }
    }

    /// Whether nothing was written. What could not be read is not missing: its problem is another one, and noted.
    pub fn is_missing(&self) -> bool {
        self.value.is_none() && !self.unreadable
    }

    /// The value with its place, if there is one.
    pub fn get(&self) -> Option<(&T, Place)> {
        self.value.as_ref().map(|value| (value, self.place))
    }

    /// The later of two, if it was written.
    pub fn or_later(self, later: Written<T>) -> Written<T> {
        if later.is_missing() { self } else { later }
    }
}

impl<T> Default for Written<T> {
    fn default() -> Self {
        Written { value: None, place: Place::default(), unreadable: false }
    }
}

impl<T: Default> Written<T> {
    /// The value, or what an empty section means.
    pub fn or_default(self) -> T {
        self.value.unwrap_or_default()
    }
}

/// The name by which [`Written`] asks a [`Reader`](crate::read::Reader) for `source, start, length, value`.
pub(crate) const WRITTEN: &str = "transom::Written";

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Parts<T> {
            type Value = Written<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value with its place")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Written<T>, A::Error> {
                let mut number = || parts.next_element::<usize>()?.ok_or_else(|| A::Error::custom("a value without its place"));
                let place = Place { source: number()?, start: number()?, length: number()? };
                // The reader has noted what is wrong with a value that it could not read.
                let value = parts.next_element::<Option<T>>();
                Ok(Written { unreadable: value.is_err(), value: value.ok().flatten().flatten(), place })
            }
        }

        deserializer.deserialize_newtype_struct(WRITTEN, Parts(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Written<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A map whose keys the user chooses, in the order of the file.
#[derive(Clone)]
pub struct Entries<T>(pub Vec<(Written<String>, Written<T>)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Entries(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Pairs(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Entries<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Map_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": "object", "additionalProperties": generator.subschema_for::<T>() })
    }
}
