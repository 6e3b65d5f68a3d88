//! Revisions of MCP and the two eras they fall into.

/// Which kind of conversation: a handshake and a session, or requests that carry all they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// 2024-11-05 to 2025-11-25: `initialize`, then a session.
    Legacy,
    /// 2026-07-28: stateless.
    Modern,
}

impl Era {
    /// As configs and status pages write it.
    pub fn name(self) -> &'static str {
        match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }
}

/// A revision we speak, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25
    V2025_11_25,
    /// 2026-07-28
    V2026_07_28,
}

impl Revision {
    /// Every revision, newest first, as `supported` lists show them.
    pub const ALL: [Revision; 5] =
        [Revision::V2026_07_28, Revision::V2025_11_25, Revision::V2025_06_18, Revision::V2025_03_26, Revision::V2024_11_05];
    /// What a legacy client gets if it asks for a revision we do not know.
    pub const NEWEST_LEGACY: Revision = Revision::V2025_11_25;
    /// What a legacy request without a version header counts as.
    pub const UNSTATED: Revision = Revision::V2025_03_26;

    /// The revision with this date.
    pub fn read(text: &str) -> Option<Revision> {
        Revision::ALL.into_iter().find(|revision| revision.text() == text)
    }

    /// Its date.
    pub fn text(self) -> &'static str {
        match self {
            Revision::V2024_11_05 => "2024-11-05",
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    /// The era it belongs to.
    pub fn era(self) -> Era {
        if self == Revision::V2026_07_28 { Era::Modern } else { Era::Legacy }
    }
}
