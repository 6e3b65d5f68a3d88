//! Any text is searched for JSON, and what comes out is a result.

use crate::world::is_json;
use transom_json::{Json, Tree, write};
use transom_registry::path::Rules;
use transom_registry::result::{Projection, Shaping};

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for path in ["$", "$.a"] {
        let schema = format!(r#"{{"type":"object","properties":{{"v":{{"sourceField":"{path}"}}}}}}"#);
        let schema = Tree::from(Json::trusted(&schema));
        let Ok(Some(projection)) = Projection::compile(&schema, &Rules::default(), &Shaping::default()) else { return };
        let result = format!(r#"{{"content":[{{"type":"text","text":{}}},{{"type":"text","text":"tail {{\"a\":1}}"}}]}}"#, write::quoted(text));
        let shaped = projection.apply(Json::trusted(&result), false);
        assert!(is_json(&shaped.json), "{text}: {}", shaped.json);
    }
}
