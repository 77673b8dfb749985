//! Memory for keys and values in blocks, which are never moved.

use crate::Error;
use bb::services::{BufferId, Buffers};
use bb::{BackendHandle, DataType, Value};

/// The number of positions in a block.
pub(crate) const BLOCK: usize = 32;

/// The minimum size of a freed buffer that is returned to the system immediately, in bytes.
const LARGE: usize = 1 << 20;

/// The element type and the shape of one position, in a buffer of keys and in a buffer of values.
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

/// The keys and values of a model in blocks, and their scales if there are any. They are stored in growing buffers of the shape
/// `[blocks, BLOCK, ..]`, followed by the shape of the row. Each buffer of keys, or of scales of keys, is followed by the
/// corresponding buffer of values.
#[derive(Debug)]
pub(crate) struct Blocks {
    on: BackendHandle,
    buffers: Buffers,
    ids: Vec<BufferId>,
    /// The row of each pair of buffers.
    rows: Vec<CacheRow>,
    room: usize,
}

/// New positions that are consecutive in the results of a run, and in the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The index of the first one among all new positions.
    pub(crate) from: usize,
    /// The index of the first one among the positions of all blocks.
    pub(crate) to: usize,
    pub(crate) count: usize,
}

impl Blocks {
    /// Creates buffers without blocks.
    pub(crate) fn new(on: BackendHandle, rows: Vec<CacheRow>) -> Blocks {
        Blocks { buffers: Buffers::new(on.clone()), on, ids: Vec::new(), rows, room: 0 }
    }

    /// Returns the number of blocks that fit the buffers.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Returns the size of `blocks` blocks in all buffers together, in bytes.
    pub(crate) fn bytes_of(&self, blocks: usize) -> usize {
        2 * blocks * BLOCK * self.rows.iter().map(CacheRow::bytes).sum::<usize>()
    }

    /// Grows the buffers to `room` blocks in total. Their content is kept.
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
                    // Keep the old buffers.
                    for id in ids {
                        self.buffers.free(id)?;
                    }
                    return Err(error.into());
                }
            }
        }
        // Copy and free one buffer at a time, so that only one buffer exists twice.
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
                // A backend keeps freed buffers for later results, but these are smaller than this buffer. An error is ignored,
                // because it only means that more memory stays in use.
                let _kept = memory.trim(0);
            }
        }
        self.ids.extend(ids);
        self.room = room;
        Ok(())
    }

    /// Returns each buffer as a tensor of all blocks.
    pub(crate) fn views(&self) -> Result<Vec<Value>, Error> {
        self.ids.iter().map(|&id| Ok(self.buffers.value(id)?)).collect()
    }

    /// Writes new positions to the blocks. Each tensor has the rows of the keys, followed by the rows of the values.
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
