//! Memory for keys and values in blocks, which stay where they are.

use crate::Error;
use bb::services::{BufferId, Buffers};
use bb::{BackendHandle, DataType, Value};

/// The positions of a block.
pub(crate) const BLOCK: usize = 32;

/// The keys and values of a model in blocks, `[blocks, BLOCK, groups, size]` for each, in buffers that grow.
#[derive(Debug)]
pub(crate) struct Blocks {
    on: BackendHandle,
    buffers: Buffers,
    ids: Vec<BufferId>,
    /// How many buffers there are: of keys and of values of each layer.
    count: usize,
    row: [usize; 2],
    dtype: DataType,
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
    /// Makes `count` buffers without blocks. A position has `row` elements of a type in each.
    pub(crate) fn new(on: BackendHandle, count: usize, row: [usize; 2], dtype: DataType) -> Blocks {
        Blocks { buffers: Buffers::new(on.clone()), on, ids: Vec::new(), count, row, dtype, room: 0 }
    }

    /// Returns the number of blocks that there is room for.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Returns the bytes that blocks take in all buffers together.
    pub(crate) fn bytes_of(&self, blocks: usize) -> usize {
        self.bytes_of_positions(blocks * BLOCK) * self.count
    }

    fn bytes_of_positions(&self, positions: usize) -> usize {
        let [groups, size] = self.row;
        positions * groups * size * self.dtype.bits() / 8
    }

    /// Makes room for as many blocks in all, and keeps what there is.
    pub(crate) fn grow(&mut self, room: usize) -> Result<(), Error> {
        if room <= self.room {
            return Ok(());
        }
        let [groups, size] = self.row;
        let before = self.bytes_of_positions(self.room * BLOCK);
        let mut ids = Vec::with_capacity(self.count);
        for at in 0..self.count {
            let made = self.buffers.alloc(self.dtype, &[room, BLOCK, groups, size]);
            let copied = made.and_then(|id| {
                ids.push(id);
                match self.ids.get(at) {
                    Some(&old) if before > 0 => self.buffers.copy(old, 0, id, 0, before),
                    _ => Ok(()),
                }
            });
            if let Err(error) = copied {
                // What was there stays.
                for id in ids {
                    self.buffers.free(id)?;
                }
                return Err(error.into());
            }
        }
        for old in std::mem::replace(&mut self.ids, ids) {
            self.buffers.free(old)?;
        }
        self.room = room;
        Ok(())
    }

    /// Returns all blocks of each buffer.
    pub(crate) fn views(&self) -> Result<Vec<Value>, Error> {
        self.ids.iter().map(|&id| Ok(self.buffers.value(id)?)).collect()
    }

    /// Writes the new positions of each buffer, `[new, groups, size]`, to their places.
    pub(crate) fn write(&self, new: &[Value], placed: &[Placed]) -> Result<(), Error> {
        let row = self.bytes_of_positions(1);
        for (&id, new) in self.ids.iter().zip(new) {
            let data = self.on.to_host(new)?;
            let bytes = data.bytes()?;
            for &Placed { from, to, count } in placed {
                let part = bytes.get(from * row..(from + count) * row);
                let part = part.ok_or(Error::Internal { what: "a run gave too few keys or values" })?;
                self.buffers.write_at(id, to * row, part)?;
            }
        }
        Ok(())
    }
}
