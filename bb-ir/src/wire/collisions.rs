//! Checks that the names of types in frames have different hashes.

use crate::type_hash::{hash_name, type_name};
use crate::{DataType, Error};

/// Checks that `names` and the names of all tensor types have different hashes.
///
/// # Errors
///
/// [`Error::HashCollision`] with the two names. A name that occurs twice is reported as a collision
/// with itself.
pub fn refuse_collisions<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
    let tensors = DataType::ALL.iter().map(|&t| type_name(t));
    let mut all: Vec<(u64, String)> =
        tensors.chain(names.into_iter().map(str::to_owned)).map(|name| (hash_name(&name), name)).collect();
    all.sort_unstable();
    for pair in all.array_windows() {
        let [(hash, first), (other, second)] = pair;
        if hash == other {
            return Err(Error::HashCollision { hash: *hash, first: first.clone(), second: second.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_occurs_twice_collides_with_itself() {
        assert!(refuse_collisions([]).is_ok());
        assert!(matches!(refuse_collisions(["bb.tensor/1;f32;dense-le"]), Err(Error::HashCollision { .. })));
    }
}
