//! Types of values, and the conversions between them that lose nothing.

use std::borrow::Cow;
use transom_json::{Json, Kind, Limits, Tree, check, write};

/// The types that a field may have; none declared means any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Types(Vec<Type>);

/// A type of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Types {
    /// What the word `type` says; `None` if it says nothing that JSON Schema knows.
    pub fn read(written: Option<&Tree>) -> Option<Types> {
        let names = match written {
            None => return Some(Types::default()),
            Some(Tree::Array(names)) => names.as_slice(),
            Some(name) => std::slice::from_ref(name),
        };
        names.iter().map(|name| Type::read(name.as_str()?)).collect::<Option<Vec<_>>>().map(Types)
    }

    /// This type alone.
    pub fn of(only: Type) -> Types {
        Types(vec![only])
    }

    /// Whether there is no declared type.
    pub fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this type is among them.
    pub fn has(&self, wanted: Type) -> bool {
        self.0.contains(&wanted)
    }

    /// Whether a list is wanted, and nothing else but perhaps `null`.
    pub fn is_list(&self) -> bool {
        self.has(Type::Array) && self.0.iter().all(|each| matches!(each, Type::Array | Type::Null))
    }

    /// Whether a value of this type may stand.
    pub fn admit(&self, wanted: Type) -> bool {
        self.is_any() || self.has(wanted)
    }

    /// The value as one of the types: as it is if it is one of them, else converted if nothing is lost. Types are tried in the
    /// order they are declared.
    pub fn fit<'t>(&self, value: Json<'t>) -> Option<Cow<'t, str>> {
        if self.is_any() || self.0.iter().any(|each| each.includes(value)) {
            return Some(Cow::Borrowed(value.raw()));
        }
        self.0.iter().find_map(|each| each.converted(value)).map(Cow::Owned)
    }
}

impl Type {
    fn read(name: &str) -> Option<Type> {
        Some(match name {
            "null" => Type::Null,
            "boolean" => Type::Boolean,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "string" => Type::String,
            "array" => Type::Array,
            "object" => Type::Object,
            _ => return None,
        })
    }

    fn includes(self, value: Json<'_>) -> bool {
        match (self, value.kind()) {
            (Type::Integer, Kind::Number) => is_integer(value.raw()),
            (Type::Null, Kind::Null)
            | (Type::Boolean, Kind::Bool)
            | (Type::Number, Kind::Number)
            | (Type::String, Kind::String)
            | (Type::Array, Kind::Array)
            | (Type::Object, Kind::Object) => true,
            _ => false,
        }
    }

    /// Numbers and truths in quotes lose them, or get them; the spelling stays.
    fn converted(self, value: Json<'_>) -> Option<String> {
        match (self, value.kind()) {
            (Type::String, Kind::Number | Kind::Bool) => Some(write::quoted(value.raw())),
            (Type::Integer | Type::Number | Type::Boolean, Kind::String) => {
                let text = value.string()?;
                let inner = check(text.as_bytes(), &Limits::REPLY).ok()?;
                // White space around a number would be lost.
                (inner.raw() == text && inner.kind() != Kind::Null && self.includes(inner)).then(|| text.into_owned())
            }
            _ => None,
        }
    }
}

/// Whether a number is a whole one, by its spelling: `5`, `5.0`, `1e3`, `0.12e2`. Nothing is computed, so size does not matter.
fn is_integer(raw: &str) -> bool {
    let (mantissa, exponent) = raw.split_once(['e', 'E']).unwrap_or((raw, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if mantissa.bytes().all(|byte| !matches!(byte, b'1'..=b'9')) {
        return true;
    }
    // An exponent that does not fit is far beyond the digits on either side.
    let negative = exponent.starts_with('-');
    let exponent = exponent.parse::<i64>().unwrap_or(if negative { i64::MIN } else { i64::MAX });
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        return i64::try_from(fraction.len()).is_ok_and(|digits| exponent >= digits);
    }
    let zeros = whole.len() - whole.trim_end_matches('0').len();
    i64::try_from(zeros).is_ok_and(|zeros| exponent >= -zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_converted_only_if_nothing_is_lost() {
        // registry.md 6, E7
        let table = [
            ("number", r#""52.3""#, Some("52.3")),
            ("number", r#""52.30""#, Some("52.30")),
            ("number", r#""1e400""#, Some("1e400")),
            ("number", r#"" 5""#, None),
            ("number", r#""05""#, None),
            ("number", r#""+5""#, None),
            ("number", r#""NaN""#, None),
            ("number", r#""5 apples""#, None),
            ("number", r#""""#, None),
            ("number", "true", None),
            ("string", "5", Some(r#""5""#)),
            ("string", "5.0", Some(r#""5.0""#)),
            ("string", "18446744073709551616", Some(r#""18446744073709551616""#)),
            ("string", "false", Some(r#""false""#)),
            ("string", "null", None),
            ("string", "[1]", None),
            ("string", r#"{"a":1}"#, None),
            ("integer", "5", Some("5")),
            ("integer", "5.0", Some("5.0")),
            ("integer", "5.5", None),
            ("integer", r#""5""#, Some("5")),
            ("integer", r#""5.5""#, None),
            ("integer", "1e3", Some("1e3")),
            ("integer", "12.5e1", Some("12.5e1")),
            ("integer", "12.5e0", None),
            ("integer", "100e-2", Some("100e-2")),
            ("integer", "100e-3", None),
            ("integer", "1e-99999999999999999999", None),
            ("integer", "1e99999999999999999999", Some("1e99999999999999999999")),
            ("integer", "0.0e-5", Some("0.0e-5")),
            ("boolean", r#""true""#, Some("true")),
            ("boolean", r#""yes""#, None),
            ("boolean", "1", None),
            ("null", r#""null""#, None),
            ("object", r#""{}""#, None),
            ("array", "{}", None),
        ];
        for (declared, value, expected) in table {
            let types = Types::read(Some(&Tree::from(declared))).unwrap();
            assert_eq!(types.fit(Json::trusted(value)).as_deref(), expected, "{value} as {declared}");
        }
    }

    #[test]
    fn of_several_types_the_value_s_own_comes_first() {
        let types = Types::read(Some(&Tree::Array(vec!["integer".into(), "string".into()]))).unwrap();
        assert_eq!(types.fit(Json::trusted(r#""5""#)).as_deref(), Some(r#""5""#));
        assert_eq!(types.fit(Json::trusted("5.5")).as_deref(), Some(r#""5.5""#));
        assert_eq!(types.fit(Json::trusted("null")), None);
        assert_eq!(Types::read(Some(&Tree::from("text"))), None);
    }
}
