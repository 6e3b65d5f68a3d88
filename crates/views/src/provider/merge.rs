//! Several JSON Schemas made into one, for dialects that have no word for the combination.

use transom_json::{Object, Tree};

/// References followed one after the other, and alternatives looked at.
const MOST: usize = 64;

/// What a reference within a document leads to.
pub fn resolve<'t>(root: &'t Tree, reference: &str) -> Option<&'t Tree> {
    let pointer = reference.strip_prefix('#')?;
    root.pointer(pointer).or_else(|| root.pointer(&decoded(pointer)))
}

/// A pointer in a URI may be percent-encoded.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16)).and_then(|digit| u8::try_from(digit).ok());
        match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(high * 16 + low);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What holds where both hold: the properties of both, what either requires, and of anything else the first's.
pub fn both(mut first: Object, second: &Object) -> Object {
    for (key, theirs) in second.iter() {
        match (key, first.get_mut(key), theirs) {
            ("properties" | "$defs" | "definitions", Some(Tree::Object(ours)), Tree::Object(theirs)) => {
                for (name, property) in theirs.iter() {
                    if !ours.contains_key(name) {
                        ours.insert(name, property.clone());
                    }
                }
            }
            ("required", Some(Tree::Array(ours)), Tree::Array(theirs)) => {
                for name in theirs {
                    if !ours.contains(name) {
                        ours.push(name.clone());
                    }
                }
            }
            (_, Some(_), _) => {}
            (_, None, theirs) => first.insert(key, theirs.clone()),
        }
    }
    first
}

/// What holds wherever one of several objects does: every property that one of them has, and what all of them require.
pub fn either(alternatives: &[Object]) -> Object {
    let mut properties = Object::default();
    let mut required: Option<Vec<Tree>> = None;
    for alternative in alternatives.iter().take(MOST) {
        for (name, property) in alternative.get("properties").and_then(Tree::as_object).into_iter().flat_map(Object::iter) {
            match properties.get_mut(name) {
                None => properties.insert(name, property.clone()),
                Some(known) => add_choice(known, property),
            }
        }
        let theirs = alternative.get("required").and_then(Tree::as_array).unwrap_or_default();
        match &mut required {
            None => required = Some(theirs.to_vec()),
            Some(ours) => ours.retain(|name| theirs.contains(name)),
        }
    }
    let mut object = Object::default();
    object.insert("properties", Tree::Object(properties));
    if let Some(required) = required.filter(|required| !required.is_empty()) {
        object.insert("required", Tree::Array(required));
    }
    object
}

fn add_choice(known: &mut Tree, other: &Tree) {
    if known == other {
        return;
    }
    // A choice made here holds nothing else; one that the schema itself made is an alternative like any other.
    if let Some(Tree::Array(choices)) = known.as_object_mut().filter(|known| known.len() == 1).and_then(|known| known.get_mut("anyOf")) {
        if !choices.contains(other) && choices.len() < MOST {
            choices.push(other.clone());
        }
        return;
    }
    let mut choice = Object::default();
    choice.insert("anyOf", Tree::Array(vec![known.clone(), other.clone()]));
    *known = Tree::Object(choice);
}

/// A schema without references and combinations at its top. What it refers to must be an object to count.
pub fn plain(root: &Tree, schema: &Object) -> Object {
    let mut left = MOST;
    unfolded(root, schema, &mut left)
}

fn unfolded(root: &Tree, schema: &Object, left: &mut usize) -> Object {
    let mut plain = schema.clone();
    if *left == 0 {
        return plain;
    }
    *left -= 1;
    if let Some(reference) = plain.remove("$ref")
        && let Some(Tree::Object(meant)) = reference.as_str().and_then(|reference| resolve(root, reference))
    {
        plain = both(plain, &unfolded(root, meant, left));
    }
    for part in plain.remove("allOf").as_ref().and_then(Tree::as_array).unwrap_or_default().iter().filter_map(Tree::as_object) {
        plain = both(plain, &unfolded(root, part, left));
    }
    for word in ["anyOf", "oneOf"] {
        let alternatives = plain.remove(word);
        let alternatives = alternatives.as_ref().and_then(Tree::as_array).unwrap_or_default().iter().filter_map(Tree::as_object);
        let alternatives: Vec<Object> = alternatives.map(|alternative| unfolded(root, alternative, left)).collect();
        if !alternatives.is_empty() {
            plain = both(plain, &either(&alternatives));
        }
    }
    plain
}
