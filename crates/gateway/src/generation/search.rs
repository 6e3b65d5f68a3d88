//! The tools of a generation by what they are about. The index is built by the first who asks, and serves everybody.

use super::{Generation, Kind};
use std::sync::Arc;
use transom_protocol::json::Json;
use transom_views::Tool;
use transom_views::search::Index;

impl Generation {
    /// The index over the listed tools, in their order.
    pub async fn index(self: &Arc<Self>) -> &Index {
        let build = || async {
            let generation = self.clone();
            // Thousands of tools take a while to read; requests go on meanwhile.
            tokio::task::spawn_blocking(move || Index::build(generation.searched())).await.unwrap_or_default()
        };
        self.index.get_or_init(build).await
    }

    fn searched(&self) -> impl Iterator<Item = Tool<'_>> {
        self.listed(Kind::Tool).iter().map(|entry| Tool {
            name: entry.exposed(),
            server: entry.slot().map(|slot| &*slot.name),
            qualified: None,
            own_name: if entry.virtual_tool().is_some() { entry.exposed() } else { entry.source_name() },
            is_virtual: entry.virtual_tool().is_some(),
            definition: Json::trusted(std::str::from_utf8(entry.json()).unwrap_or("{}")),
        })
    }
}
