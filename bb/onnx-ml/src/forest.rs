//! Trees as flat lists of nodes. They are checked: every child is an existing node, and no node is its own
//! descendant.

use bb_core::Error;
use bb_core::operator::Call;
use bb_ir::TensorData;
use bb_ir::convert::{Rounding, cast};
use bb_onnx::shared::texts;
use std::collections::HashMap;

/// How a node compares a feature with its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    LessOrEqual,
    Less,
    GreaterOrEqual,
    Greater,
    Equal,
    NotEqual,
    /// Tests whether the feature is in a set.
    Member,
}

impl Mode {
    pub(crate) const ALL: [Mode; 7] = [
        Mode::LessOrEqual,
        Mode::Less,
        Mode::GreaterOrEqual,
        Mode::Greater,
        Mode::Equal,
        Mode::NotEqual,
        Mode::Member,
    ];
}

/// A node. The children of a leaf are the leaf itself.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) feature: usize,
    pub(crate) threshold: f64,
    pub(crate) mode: Mode,
    /// Whether a missing feature, NaN, takes the true branch.
    pub(crate) missing: bool,
    /// The indices of the children, for true and false.
    pub(crate) children: [usize; 2],
    /// The index of the leaf, if the node is a leaf.
    pub(crate) leaf: Option<usize>,
    /// The set of values for a membership test of the feature.
    pub(crate) members: Vec<f64>,
}

/// Several trees in one list of nodes.
#[derive(Debug)]
pub(crate) struct Forest {
    pub(crate) nodes: Vec<Node>,
    /// The index of the root of each tree.
    pub(crate) roots: Vec<usize>,
    /// The number of leaves.
    pub(crate) leaves: usize,
    /// The maximum number of steps from a root to a leaf.
    pub(crate) depth: usize,
}

/// A forest in the layout for [`Ml::tree_ensemble`](bb_core::ext::Ml::tree_ensemble): inner nodes first, then
/// leaves.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Four integers for each inner node: the feature column, the index of the test, and the nodes for true and
    /// false.
    pub(crate) nodes: Vec<i32>,
    pub(crate) thresholds: Vec<f64>,
    pub(crate) roots: Vec<i32>,
}

/// The index of each node, by tree id and node id.
pub(crate) type Places = HashMap<(i64, i64), usize>;

/// Reads a list of floats, or a tensor from the attribute `{name}_as_tensor`. Also returns whether the numbers
/// are `f64`.
pub(crate) fn list<T>(call: &Call<'_, T>, name: &str) -> Result<Option<(Vec<f64>, bool)>, Error> {
    if let Some(tensor) = call.tensor_attribute(&format!("{name}_as_tensor"))? {
        return doubles(tensor).map(Some);
    }
    Ok(call.floats(name)?.map(|list| (list.iter().copied().map(f64::from).collect(), false)))
}

/// Reads the numbers of a tensor, and whether they are `f64`.
pub(crate) fn doubles(tensor: &TensorData) -> Result<(Vec<f64>, bool), Error> {
    let wide = cast(tensor, bb_ir::DataType::F64, Rounding::default())?;
    Ok((wide.as_slice::<f64>()?.to_vec(), tensor.dtype() == bb_ir::DataType::F64))
}

/// Reads exactly `count` integers.
fn integers<'a, T>(call: &Call<'a, T>, name: &str, count: usize) -> Result<&'a [i64], Error> {
    let list = call.ints(name)?.unwrap_or_default();
    if list.len() != count {
        return Err(call.wrong(name, format!("has {} entries, expected {count}", list.len())));
    }
    Ok(list)
}

/// Converts an integer to an index.
fn index<T>(call: &Call<'_, T>, name: &str, i: i64) -> Result<usize, Error> {
    usize::try_from(i).map_err(|_| call.wrong(name, format!("has {i}, expected no negative number")))
}

/// Reads exactly `count` indices.
fn indices<T>(call: &Call<'_, T>, name: &str, count: usize) -> Result<Vec<usize>, Error> {
    integers(call, name, count)?.iter().map(|&i| index(call, name, i)).collect()
}

/// Reads exactly `count` booleans. If the attribute is absent or empty, all are false.
fn flags<T>(call: &Call<'_, T>, name: &str, count: usize) -> Result<Vec<bool>, Error> {
    match call.ints(name)?.unwrap_or_default() {
        [] => Ok(vec![false; count]),
        list if list.len() == count => Ok(list.iter().map(|&v| v != 0).collect()),
        list => Err(call.wrong(name, format!("has {} entries, expected {count}", list.len()))),
    }
}

impl Forest {
    /// Reads nodes that are named by tree id and node id. Also returns the index of each node by these names,
    /// and whether thresholds are `f64`.
    pub(crate) fn by_name<T>(call: &Call<'_, T>) -> Result<(Forest, Places, bool), Error> {
        let trees = call.ints("nodes_treeids")?.unwrap_or_default();
        let count = trees.len();
        let ids = call.ints("nodes_nodeids")?.unwrap_or_default();
        let modes = texts(call, "nodes_modes")?.unwrap_or_default();
        let (thresholds, double) = list(call, "nodes_values")?.unwrap_or_default();
        for (name, len) in
            [("nodes_nodeids", ids.len()), ("nodes_modes", modes.len()), ("nodes_values", thresholds.len())]
        {
            if len != count {
                return Err(call.wrong(name, format!("has {len} entries, expected {count}")));
            }
        }
        let mut places = HashMap::with_capacity(count);
        let mut roots: Vec<(i64, usize)> = Vec::new();
        for (place, (&tree, &id)) in trees.iter().zip(ids).enumerate() {
            if places.insert((tree, id), place).is_some() {
                return Err(call.wrong("nodes_nodeids", format!("has node {id} of tree {tree} twice")));
            }
            roots.push((tree, place));
        }
        // The node of a tree that is listed first is its root.
        roots.sort_unstable();
        roots.dedup_by_key(|(tree, _)| *tree);
        let yes = integers(call, "nodes_truenodeids", count)?;
        let no = integers(call, "nodes_falsenodeids", count)?;
        let features = integers(call, "nodes_featureids", count)?;
        let missing = flags(call, "nodes_missing_value_tracks_true", count)?;
        let mut leaves = 0;
        let mut nodes = Vec::with_capacity(count);
        let entries =
            modes.iter().zip(thresholds).zip(features).zip(missing).zip(trees).zip(yes.iter().zip(no));
        for (place, (((((&mode, threshold), &feature), missing), &tree), (&yes, &no))) in entries.enumerate()
        {
            let leaf = (mode == "LEAF").then_some(leaves);
            let child = |id: i64| {
                places.get(&(tree, id)).copied().ok_or_else(|| {
                    call.wrong(
                        "nodes_nodeids",
                        format!("has no {id} in tree {tree}, though a node leads there"),
                    )
                })
            };
            let children = if leaf.is_some() {
                leaves += 1;
                [place; 2]
            } else {
                [child(yes)?, child(no)?]
            };
            // The feature of a leaf is ignored.
            let feature = if leaf.is_some() { 0 } else { index(call, "nodes_featureids", feature)? };
            let mode = named(call, mode)?;
            nodes.push(Node { feature, threshold, mode, missing, children, leaf, members: Vec::new() });
        }
        let roots = roots.into_iter().map(|(_, place)| place).collect();
        let mut forest = Forest { nodes, roots, leaves, depth: 0 };
        forest.depth = forest.measure(call)?;
        Ok((forest, places, double))
    }

    /// Reads nodes and leaves that are referenced by index. Leaves follow the nodes.
    pub(crate) fn by_position<T>(call: &Call<'_, T>, leaves: usize) -> Result<Forest, Error> {
        let tensor = |name| -> Result<Vec<f64>, Error> {
            let tensor = call.tensor_attribute(name)?;
            Ok(doubles(tensor.ok_or_else(|| call.wrong(name, "is missing; the operator needs it"))?)?.0)
        };
        let thresholds = tensor("nodes_splits")?;
        let count = thresholds.len();
        let modes = tensor("nodes_modes")?;
        if modes.len() != count {
            return Err(call.wrong("nodes_modes", format!("has {} entries, expected {count}", modes.len())));
        }
        let features = indices(call, "nodes_featureids", count)?;
        let missing = flags(call, "nodes_missing_value_tracks_true", count)?;
        let children = |name, leafs| -> Result<Vec<usize>, Error> {
            let places = indices(call, name, count)?.into_iter().zip(flags(call, leafs, count)?);
            places
                .map(|(id, leaf)| {
                    let limit = if leaf { leaves } else { count };
                    if id >= limit {
                        return Err(call.wrong(name, format!("has {id}, expected less than {limit}")));
                    }
                    Ok(if leaf { count + id } else { id })
                })
                .collect()
        };
        let yes = children("nodes_truenodeids", "nodes_trueleafs")?;
        let no = children("nodes_falsenodeids", "nodes_falseleafs")?;
        let mut sets: Vec<Vec<f64>> = match call.tensor_attribute("membership_values")? {
            Some(values) => doubles(values)?.0.split(|v| v.is_nan()).map(<[f64]>::to_vec).collect(),
            None => Vec::new(),
        };
        // NaN ends each set, so the last set is an empty remainder.
        sets.pop_if(|set| set.is_empty());
        let mut sets = sets.into_iter();
        let mut nodes = Vec::with_capacity(count + leaves);
        let entries =
            thresholds.into_iter().zip(modes).zip(features).zip(missing).zip(yes.into_iter().zip(no));
        for ((((threshold, mode), feature), missing), (yes, no)) in entries {
            let known = Mode::ALL.get(mode as usize).filter(|_| mode.fract() == 0.0 && mode >= 0.0);
            let mode =
                *known.ok_or_else(|| call.wrong("nodes_modes", format!("has {mode}, expected 0 to 6")))?;
            let members = match mode {
                Mode::Member => sets.next().ok_or_else(|| {
                    call.wrong("membership_values", "has fewer sets than there are nodes that test one")
                })?,
                _ => Vec::new(),
            };
            nodes.push(Node { feature, threshold, mode, missing, children: [yes, no], leaf: None, members });
        }
        if sets.len() > 0 {
            return Err(call.wrong("membership_values", "has more sets than there are nodes that test one"));
        }
        for leaf in 0..leaves {
            nodes.push(Node {
                feature: 0,
                threshold: 0.0,
                mode: Mode::LessOrEqual,
                missing: false,
                children: [count + leaf; 2],
                leaf: Some(leaf),
                members: Vec::new(),
            });
        }
        let roots = call.ints("tree_roots")?.unwrap_or_default();
        let roots = indices(call, "tree_roots", roots.len())?;
        if let Some(root) = roots.iter().find(|&&root| root >= count) {
            return Err(call.wrong("tree_roots", format!("has {root}, expected less than {count}")));
        }
        let mut forest = Forest { nodes, roots, leaves, depth: 0 };
        forest.depth = forest.measure(call)?;
        Ok(forest)
    }

    /// Lists the inner nodes.
    pub(crate) fn inner(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.leaf.is_none())
    }

    /// Returns the tables. Inner nodes come first, then leaves.
    pub(crate) fn tables<T>(&self, call: &Call<'_, T>) -> Result<Tables, Error> {
        let count = self.nodes.len() - self.leaves;
        let narrow = |number: usize| {
            i32::try_from(number).map_err(|_| {
                call.wrong("nodes_featureids", format!("leads to {number}, more than 31 bits hold"))
            })
        };
        let mut next = 0;
        let number = |node: &Node| match node.leaf {
            Some(leaf) => count + leaf,
            None => {
                next += 1;
                next - 1
            }
        };
        let numbers: Vec<usize> = self.nodes.iter().map(number).collect();
        let numbered = |place: usize| narrow(numbers.get(place).copied().unwrap_or(usize::MAX));
        let mut nodes = Vec::with_capacity(4 * count);
        let mut sets = 0;
        for node in self.inner() {
            let set = if node.mode == Mode::Member {
                sets += 1;
                sets - 1
            } else {
                0
            };
            let test = node.mode as usize + 8 * usize::from(node.missing) + 16 * set;
            let [yes, no] = node.children;
            nodes.extend([narrow(node.feature)?, narrow(test)?, numbered(yes)?, numbered(no)?]);
        }
        let thresholds = self.inner().map(|node| node.threshold).collect();
        let roots = self.roots.iter().map(|&root| numbered(root)).collect::<Result<_, _>>()?;
        Ok(Tables { nodes, thresholds, roots })
    }

    /// Returns the maximum number of steps from a root to a leaf.
    fn measure<T>(&self, call: &Call<'_, T>) -> Result<usize, Error> {
        /// The height of a node, if it is already known.
        #[derive(Clone, Copy)]
        enum Height {
            Unknown,
            /// The height is being computed. Visiting the node again means that there is a cycle.
            Open,
            Known(usize),
        }
        let mut heights = vec![Height::Unknown; self.nodes.len()];
        let mut depth = 0;
        for &root in &self.roots {
            let mut stack = vec![root];
            while let Some(&at) = stack.last() {
                let (Some(node), Some(&height)) = (self.nodes.get(at), heights.get(at)) else { break };
                let known = |i: usize| match heights.get(i) {
                    Some(Height::Known(height)) => Some(*height),
                    _ => None,
                };
                let [yes, no] = node.children;
                let next = match (height, node.leaf, known(yes), known(no)) {
                    (Height::Known(_), ..) => None,
                    (_, Some(_), ..) => Some(Height::Known(0)),
                    (_, None, Some(yes), Some(no)) => Some(Height::Known(1 + yes.max(no))),
                    (Height::Open, None, ..) => {
                        // All children are finished before the traversal returns to a node, unless a child leads
                        // back to the node.
                        return Err(call.wrong("nodes_truenodeids", "makes a node its own descendant"));
                    }
                    (Height::Unknown, None, ..) => Some(Height::Open),
                };
                match next {
                    Some(Height::Open) => {
                        if let Some(slot) = heights.get_mut(at) {
                            *slot = Height::Open;
                        }
                        stack.extend([yes, no]);
                        continue;
                    }
                    Some(height) => {
                        if let Some(slot) = heights.get_mut(at) {
                            *slot = height;
                        }
                    }
                    None => {}
                }
                stack.pop();
            }
            if let Some(Height::Known(height)) = heights.get(root) {
                depth = depth.max(*height);
            }
        }
        Ok(depth)
    }
}

/// Parses a mode. A leaf makes no comparison, so its mode is arbitrary.
fn named<T>(call: &Call<'_, T>, word: &str) -> Result<Mode, Error> {
    Ok(match word {
        "BRANCH_LEQ" | "LEAF" => Mode::LessOrEqual,
        "BRANCH_LT" => Mode::Less,
        "BRANCH_GTE" => Mode::GreaterOrEqual,
        "BRANCH_GT" => Mode::Greater,
        "BRANCH_EQ" => Mode::Equal,
        "BRANCH_NEQ" => Mode::NotEqual,
        other => return Err(call.wrong("nodes_modes", format!("has `{other}`, which names no comparison"))),
    })
}
