//! The gateway's own tools, by which a client finds and uses tools that are not on its list.

use super::{Entry, Kind};
use bytes::Bytes;
use std::sync::{Arc, OnceLock};
use transom_protocol::Era;

/// One of the gateway's own tools. What it does is in [`crate::discovery`] and [`crate::invoke`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// Finds tools by what they are about.
    Search,
    /// Shows the whole definition of a tool.
    Describe,
    /// Calls a tool.
    Invoke,
}

impl Own {
    /// All of them, in the order of lists.
    pub const ALL: [Own; 3] = [Own::Search, Own::Describe, Own::Invoke];

    /// Its name, which no other tool has while it is there.
    pub const fn name(self) -> &'static str {
        match self {
            Own::Search => "catalog_search",
            Own::Describe => "describe_tool",
            Own::Invoke => "invoke_tool",
        }
    }

    /// Its definition, as lists show it.
    pub fn definition(self) -> &'static str {
        match self {
            Own::Search => include_str!("own/catalog_search.json"),
            Own::Describe => include_str!("own/describe_tool.json"),
            Own::Invoke => include_str!("own/invoke_tool.json"),
        }
    }

    /// It, as something that a client can see and use.
    pub(super) fn entry(self) -> Entry {
        let name = self.name();
        Entry {
            kind: Kind::Tool,
            exposed: name.into(),
            source: Bytes::from_static(name.as_bytes()),
            slot: None,
            json: Bytes::from_static(self.definition().trim_ascii_end().as_bytes()),
            available: true,
            era: Era::Legacy,
            wish: name.to_owned(),
            headers: Vec::new(),
            series: Arc::default(),
            virtual_tool: None,
            absent: None,
            own: Some(self),
            subject: OnceLock::new(),
            takes: OnceLock::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_one_that_a_target_could_offer() {
        for own in Own::ALL {
            let tool = transom_registry::SourceTool::read(own.definition());
            let definition: serde_json::Value = serde_json::from_str(own.definition()).unwrap();
            assert!(tool.is_ok(), "{own:?}: {:?}", tool.err());
            assert_eq!(definition["name"], own.name());
        }
    }
}
