//! Caches of keys and values that stay where they are.

use crate::Error;
use bb::services::{BufferId, Buffers};
use bb::{BackendHandle, DataType, Value};

/// The least number of positions that caches have room for.
const LEAST: usize = 256;

/// Keys or values of all positions so far, `[positions, groups, size]` of `f32` for each, in buffers with room for more. What is new
/// is written behind them; where there is no more room, it doubles.
#[derive(Debug)]
pub(crate) struct Cache {
    on: BackendHandle,
    buffers: Buffers,
    ids: Vec<BufferId>,
    count: usize,
    row: [usize; 2],
    length: usize,
    room: usize,
    most: usize,
}

impl Cache {
    /// Makes `count` caches without positions, for at most `most` of them.
    pub(crate) fn new(on: BackendHandle, count: usize, row: [usize; 2], most: usize) -> Cache {
        Cache { buffers: Buffers::new(on.clone()), on, ids: Vec::new(), count, row, length: 0, room: 0, most }
    }

    /// Returns the number of positions.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns the bytes that the caches take.
    pub(crate) fn bytes(&self) -> usize {
        self.count * self.bytes_of(self.room)
    }

    fn bytes_of(&self, positions: usize) -> usize {
        let [groups, size] = self.row;
        positions * groups * size * size_of::<f32>()
    }

    /// Forgets all positions from this one on.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Makes room for more positions.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<(), Error> {
        let needed = self.length + more;
        if needed > self.most {
            return Err(Error::Context { needed, most: self.most });
        }
        if needed <= self.room {
            return Ok(());
        }
        let room = needed.next_power_of_two().max(LEAST).min(self.most);
        let [groups, size] = self.row;
        let mut ids = Vec::with_capacity(self.count);
        for at in 0..self.count {
            let id = self.buffers.alloc(DataType::F32, &[room, groups, size])?;
            if let Some(&old) = self.ids.get(at) {
                if self.length > 0 {
                    self.buffers.copy(old, 0, id, 0, self.bytes_of(self.length))?;
                }
                self.buffers.free(old)?;
            }
            ids.push(id);
        }
        (self.ids, self.room) = (ids, room);
        Ok(())
    }

    /// Returns the positions so far of each cache.
    pub(crate) fn views(&self) -> Result<Vec<Value>, Error> {
        if self.ids.is_empty() {
            let [groups, size] = self.row;
            let empty = self.on.tensor::<f32>(&[0, groups, size], &[])?;
            return Ok(vec![empty; self.count]);
        }
        let view = |&id: &BufferId| -> Result<Value, Error> {
            Ok(self.buffers.value(id)?.slice(&[0], &[self.length as i64], &[0], &[])?)
        };
        self.ids.iter().map(view).collect()
    }

    /// Appends positions to each cache.
    pub(crate) fn append(&mut self, new: &[Value], positions: usize) -> Result<(), Error> {
        self.reserve(positions)?;
        let offset = self.bytes_of(self.length);
        for (&id, new) in self.ids.iter().zip(new) {
            let data = self.on.to_host(new)?;
            self.buffers.write_at(id, offset, data.bytes()?)?;
        }
        self.length += positions;
        Ok(())
    }
}
