//! Operators, families of operations and gradients, against their definitions.

mod activations;
mod chosen;
mod drawn;
mod families;
mod functions;
mod gradients;
mod options;
mod table;
