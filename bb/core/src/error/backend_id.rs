//! Identifies the running backend that a value belongs to, so that errors can name it.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// The id of a running instance of a backend. Two instances of one backend have different ids.
///
/// A process never reuses an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId {
    /// The index of the entry of the name in [`NAMES`].
    row: u32,
    /// The number of instances of this entry that were opened before.
    before: u32,
}

/// The names of all instances that were ever opened. Its size depends only on the number of distinct names.
struct Names {
    rows: Vec<InstanceCount>,
    /// The index of the entry that assigns the id of the next instance of a name.
    current: BTreeMap<&'static str, u32>,
}

struct InstanceCount {
    name: &'static str,
    /// The number of instances of this name that earlier entries count.
    earlier: u64,
    /// The number of instances that this entry counts.
    opened: u32,
}

static NAMES: RwLock<Names> = RwLock::new(Names { rows: Vec::new(), current: BTreeMap::new() });

impl Names {
    fn open(&mut self, name: &'static str) -> BackendId {
        let known = self.current.get(name).copied();
        let mut earlier = 0;
        if let Some(row) = known
            && let Some(found) = self.rows.get_mut(row as usize)
        {
            let before = found.opened;
            if let Some(opened) = before.checked_add(1) {
                found.opened = opened;
                return BackendId { row, before };
            }
            // The counter of this entry is used up, so the name gets another entry.
            earlier = found.earlier + u64::from(before);
        }
        let row = self.rows.len() as u32;
        self.rows.push(InstanceCount { name, earlier, opened: 1 });
        self.current.insert(name, row);
        BackendId { row, before: 0 }
    }
}

impl BackendId {
    /// Creates the id of a new instance.
    pub(crate) fn of_new(name: &'static str) -> BackendId {
        NAMES.write().unwrap_or_else(PoisonError::into_inner).open(name)
    }

    /// Returns the name, and the number of instances with this name that were opened before.
    fn entry(self) -> (&'static str, u64) {
        let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
        let row = names.rows.get(self.row as usize);
        row.map_or(("", 0), |row| (row.name, row.earlier + u64::from(self.before)))
    }

    /// Returns the name of the backend.
    pub fn name(self) -> &'static str {
        self.entry().0
    }
}

impl std::fmt::Display for BackendId {
    /// Writes the name, and a number from the second instance of a name on.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.entry() {
            (name, 0) => f.write_str(name),
            (name, before) => write!(f, "{name} #{}", before + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_whose_numbers_are_all_taken_gets_another_row() {
        let mut names = Names { rows: Vec::new(), current: BTreeMap::new() };
        let first = names.open("a");
        if let Some(row) = names.rows.first_mut() {
            row.opened = u32::MAX;
        }
        let (next, other) = (names.open("a"), names.open("b"));
        assert_eq!(first, BackendId { row: 0, before: 0 });
        assert_eq!(next, BackendId { row: 1, before: 0 });
        assert_eq!(other, BackendId { row: 2, before: 0 });
        assert_eq!(names.rows.get(1).map(|row| row.earlier), Some(u64::from(u32::MAX)));
    }
}
