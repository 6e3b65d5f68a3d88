//! Values that people may write in more than one shape. The reader looks at the shape and says which it is, so that the place
//! of a mistake is kept, which `untagged` would lose.

use crate::file::Text;
use crate::written::{Entries, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// The name by which [`TextOr`] asks a [`Reader`](crate::read::Reader) for a text or a map.
pub(crate) const TEXT_OR_MAP: &str = "transom::TextOr";

/// The name by which [`OneOrMany`] asks a [`Reader`](crate::read::Reader) for a list or its only item.
pub(crate) const ONE_OR_MANY: &str = "transom::OneOrMany";

/// The name by which [`Any`] asks a [`Reader`](crate::read::Reader) for whatever is there.
pub(crate) const ANYTHING: &str = "transom::Any";

/// A text, or a map that says more.
#[derive(Clone)]
pub enum TextOr<T> {
    /// The text.
    Text(Text),
    /// The map.
    Map(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = TextOr<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a map")
            }

            fn visit_str<E>(self, text: &str) -> Result<TextOr<T>, E> {
                Ok(TextOr::Text(Text(text.to_owned())))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, map: D) -> Result<TextOr<T>, D::Error> {
                T::deserialize(map).map(TextOr::Map)
            }
        }

        deserializer.deserialize_newtype_struct(TEXT_OR_MAP, Either(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for TextOr<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Text_or_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, generator.subschema_for::<T>()] })
    }
}

/// A list, or its only item.
#[derive(Clone)]
pub struct OneOrMany<T>(pub Vec<Written<T>>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map or a list of maps")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OneOrMany<T>, A::Error> {
                let mut many = Vec::new();
                while let Some(item) = items.next_element()? {
                    many.push(item);
                }
                Ok(OneOrMany(many))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, item: D) -> Result<OneOrMany<T>, D::Error> {
                Written::deserialize(item).map(|item| OneOrMany(vec![item]))
            }
        }

        deserializer.deserialize_newtype_struct(ONE_OR_MANY, Items(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("One_or_many_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let item = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [item, { "type": "array", "items": item }] })
    }
}

/// Any JSON; `null` is a [`Written`] without a value.
#[derive(Clone)]
pub enum Any {
    /// `true` or `false`.
    Boolean(bool),
    /// A number, as spelled.
    Number(String),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Written<Any>>),
    /// A map.
    Map(Entries<Any>),
}

impl Any {
    /// What it says in JSON. Each text and each number goes through `spell`, which knows what their places are.
    pub fn write_json(written: &Written<Any>, spell: &mut impl FnMut(&Any, &Written<Any>) -> String, json: &mut String) {
        match &written.value {
            None => json.push_str("null"),
            Some(Any::Boolean(value)) => json.push_str(if *value { "true" } else { "false" }),
            Some(scalar @ (Any::Number(_) | Any::Text(_))) => json.push_str(&spell(scalar, written)),
            Some(Any::List(items)) => {
                json.push('[');
                for (index, item) in items.iter().enumerate() {
                    json.push_str(if index == 0 { "" } else { "," });
                    Any::write_json(item, spell, json);
                }
                json.push(']');
            }
            Some(Any::Map(Entries(entries))) => {
                json.push('{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    json.push_str(if index == 0 { "" } else { "," });
                    json.push_str(&quoted(key.value.as_deref().unwrap_or_default()));
                    json.push(':');
                    Any::write_json(value, spell, json);
                }
                json.push('}');
            }
        }
    }
}

/// A text as JSON spells it.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A number of YAML as JSON spells it, digit by digit, if JSON can.
pub fn json_number(spelled: &str) -> Option<String> {
    let is_json = |text: &str| serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok_and(|raw| raw.get() == text);
    if is_json(spelled) {
        return Some(spelled.to_owned());
    }
    let (sign, digits) = match spelled.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", spelled.strip_prefix('+').unwrap_or(spelled)),
    };
    let number = if let Some(hexadecimal) = digits.strip_prefix("0x") {
        u128::from_str_radix(hexadecimal, 16).ok()?.to_string()
    } else if let Some(octal) = digits.strip_prefix("0o") {
        u128::from_str_radix(octal, 8).ok()?.to_string()
    } else if digits.starts_with('.') {
        format!("0{digits}")
    } else {
        digits.to_owned()
    };
    // `5.` is a number to YAML, and so is `5.e3`; JSON wants a digit.
    let number = if number.ends_with('.') { format!("{number}0") } else { number };
    let number = format!("{sign}{number}");
    is_json(&number).then_some(number)
}

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shapes;

        impl<'de> Visitor<'de> for Shapes {
            type Value = Any;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Any, E> {
                Ok(Any::Boolean(value))
            }

            /// The reader's way to tell numbers, as spelled, from texts.
            fn visit_bytes<E: serde::de::Error>(self, spelled: &[u8]) -> Result<Any, E> {
                String::from_utf8(spelled.to_vec()).map(Any::Number).map_err(E::custom)
            }

            fn visit_str<E>(self, text: &str) -> Result<Any, E> {
                Ok(Any::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Any, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Any::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Any, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Any::Map(Entries(entries)))
            }
        }

        deserializer.deserialize_newtype_struct(ANYTHING, Shapes)
    }
}

impl JsonSchema for Any {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Any".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_yaml_become_numbers_of_json_where_there_is_such_a_one() {
        let table = [
            ("0", Some("0")),
            ("-1.50", Some("-1.50")),
            ("1e400", Some("1e400")),
            ("12345678901234567890123", Some("12345678901234567890123")),
            ("0x1F", Some("31")),
            ("0o17", Some("15")),
            ("+5", Some("5")),
            (".5", Some("0.5")),
            ("-.5", Some("-0.5")),
            ("5.", Some("5.0")),
            ("007", None),
            (".inf", None),
            (".nan", None),
            ("1_000", None),
        ];
        for (spelled, expected) in table {
            assert_eq!(json_number(spelled).as_deref(), expected, "{spelled}");
        }
    }
}
