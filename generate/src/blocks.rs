//! Memory for keys and values in blocks, which stay where they are.

use crate::Error;
use bb::services::{BufferId, Buffers};
use bb::{BackendHandle, DataType, Value};

/// The positions of a block.
pub(crate) const BLOCK: usize = 32;

/// The least size in bytes of a freed buffer that goes back to the system at once.
const LARGE: usize = 1 << 20;

/// Element type and extents of one position, in a buffer of keys and in a buffer of values.
#[derive(Debug, Clone)]
pub(crate) struct CacheRow {
    pub(crate) dtype: DataType,
    pub(crate) extents: Vec<usize>,
}

impl CacheRow {
    fn bytes(&self) -> usize {
        self.extents.iter().product::<usize>() * self.dtype.bits() / 8
    }
}

/// The keys and values of a model in blocks, and their scales if there are any, in buffers that grow: `[blocks, BLOCK, ..]` for each,
/// with the extents of its row behind. Each buffer of keys, or of scales of keys, has one of values behind it.
#[derive(Debug)]
pub(crate) struct Blocks {
    on: BackendHandle,
    buffers: Buffers,
    ids: Vec<BufferId>,
    /// The rows of each pair of buffers.
    rows: Vec<CacheRow>,
    room: usize,
}

/// New positions that follow each other in the results of a run, and in the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The first of them among all new positions.
    pub(crate) from: usize,
    /// Its place among the positions of all blocks.
    pub(crate) to: usize,
    pub(crate) count: usize,
}

impl Blocks {
    /// Makes buffers without blocks.
    pub(crate) fn new(on: BackendHandle, rows: Vec<CacheRow>) -> Blocks {
        Blocks { buffers: Buffers::new(on.clone()), on, ids: Vec::new(), rows, room: 0 }
    }

    /// Returns the number of blocks that there is room for.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Returns the bytes that blocks take in all buffers together.
    pub(crate) fn bytes_of(&self, blocks: usize) -> usize {
        2 * blocks * BLOCK * self.rows.iter().map(CacheRow::bytes).sum::<usize>()
    }

    /// Grows the buffers to `room` blocks in total, and keeps their content.
    pub(crate) fn grow(&mut self, room: usize) -> Result<(), Error> {
        if room <= self.room {
            return Ok(());
        }
        let rows = self.rows.iter().flat_map(|row| [row; 2]);
        let mut ids = Vec::with_capacity(2 * self.rows.len());
        for row in rows.clone() {
            match self.buffers.alloc(row.dtype, &[&[room, BLOCK], row.extents.as_slice()].concat()) {
                Ok(id) => ids.push(id),
                Err(error) => {
                    // The old buffers stay.
                    for id in ids {
                        self.buffers.free(id)?;
                    }
                    return Err(error.into());
                }
            }
        }
        // Each buffer is freed before the next one is copied, so that most of them exist once.
        let mut ids = ids.into_iter();
        for ((old, row), new) in self.ids.iter_mut().zip(rows).zip(&mut ids) {
            let bytes = self.room * BLOCK * row.bytes();
            if let Err(error) = self.buffers.copy(*old, 0, new, 0, bytes) {
                for id in std::iter::once(new).chain(ids) {
                    self.buffers.free(id)?;
                }
                return Err(error.into());
            }
            self.buffers.free(std::mem::replace(old, new))?;
            if bytes >= LARGE
                && let Ok(memory) = self.on.memory()
            {
                // A backend keeps freed buffers for its next results, which are smaller than this one. If it cannot return them, it
                // only takes more memory.
                let _kept = memory.trim(0);
            }
        }
        self.ids.extend(ids);
        self.room = room;
        Ok(())
    }

    /// Returns all blocks of each buffer.
    pub(crate) fn views(&self) -> Result<Vec<Value>, Error> {
        self.ids.iter().map(|&id| Ok(self.buffers.value(id)?)).collect()
    }

    /// Writes new positions to their places. Each tensor has the rows of the keys, followed by the rows of the values.
    pub(crate) fn write(&self, new: &[Value], placed: &[Placed]) -> Result<(), Error> {
        let positions: usize = placed.iter().map(|placed| placed.count).sum();
        let other =
            || Error::Internal { what: "a run gave other keys or values than its new positions have" };
        if new.len() != self.rows.len() {
            return Err(other());
        }
        for ((ids, row), new) in self.ids.chunks(2).zip(&self.rows).zip(new) {
            let row = row.bytes();
            let data = self.on.to_host(new)?;
            let bytes = data.bytes()?;
            if bytes.len() != 2 * positions * row {
                return Err(other());
            }
            let (keys, values) = bytes.split_at(positions * row);
            for (&id, bytes) in ids.iter().zip([keys, values]) {
                for &Placed { from, to, count } in placed {
                    let part = bytes.get(from * row..(from + count) * row).ok_or_else(other)?;
                    self.buffers.write_at(id, to * row, part)?;
                }
            }
        }
        Ok(())
    }
}
