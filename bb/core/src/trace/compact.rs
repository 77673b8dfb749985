//! Encodes traces in the compact format of saved models.

use super::log::{Event, Guard, Place, Relation, Symbol};
use super::params::{Recipe, SymbolicParam, SymbolicParams, SymbolicValue};
use super::steps::{
    ConstantIndex, InputIndex, OriginId, Phase, Step, StepId, Trace, TraceValue, TraceValueInfo, ValueSource,
    Varying, WeightId,
};
use super::table::{Table, TableIndex};
use bb_ir::Error;
use bb_ir::compact::{Compact, Reader, Writer};

/// Implements the encoding of index types. An index is encoded as its position in the table.
macro_rules! positions {
    ($( $ty:ty ),*) => { $(
        impl Compact for $ty {
            fn write(&self, to: &mut Writer) {
                self.position().write(to);
            }

            fn read(from: &mut Reader<'_>) -> Result<$ty, Error> {
                Ok(<$ty>::at(usize::read(from)?))
            }
        }
    )* };
}

positions!(TraceValue, StepId, InputIndex, ConstantIndex, OriginId);

impl<I: TableIndex, T: Compact> Compact for Table<I, T> {
    fn write(&self, to: &mut Writer) {
        self.len().write(to);
        self.entries().for_each(|entry| entry.write(to));
    }

    fn read(from: &mut Reader<'_>) -> Result<Table<I, T>, Error> {
        Ok(Vec::read(from)?.into_iter().collect())
    }
}

bb_ir::__compact!(enum WeightId: "a weight" { 0 => Graph(position), 1 => Body(position) });
bb_ir::__compact!(enum ValueSource: "the source of a value" {
    0 => Input(index),
    1 => Weight(id),
    2 => Constant(index),
    3 => Step,
});
bb_ir::__compact!(struct Varying { bits });
bb_ir::__compact!(struct TraceValueInfo { source, dtype, shape, elements, varying });
bb_ir::__compact!(enum Phase: "when a step runs" { 0 => Once, 1 => EachRun });
bb_ir::__compact!(struct Step { operation, params, symbolic, inputs, outputs, origins, phase });
bb_ir::__compact!(struct Place { input, axis });
bb_ir::__compact!(struct Symbol { name, number, places });
bb_ir::__compact!(enum Relation: "a relation" { 0 => Zero, 1 => NotZero, 2 => AtLeastZero });
bb_ir::__compact!(struct Guard { expr, relation });
bb_ir::__compact!(enum Event: "what a trace depends on" { 0 => Tied(symbol), 1 => Guarded(guard) });
bb_ir::__compact!(struct Trace { steps, values, constants, outputs, symbols, events });
bb_ir::__compact!(enum Recipe: "how a tensor is made" {
    0 => Elements(shape, exprs),
    1 => Range { start, step, count },
});
bb_ir::__compact!(enum SymbolicValue: "a parameter that is an expression" { 0 => List(list), 1 => Data(dtype, recipe) });
bb_ir::__compact!(struct SymbolicParam { param, value });

impl Compact for Box<SymbolicParams> {
    fn write(&self, to: &mut Writer) {
        self.0.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Box::new(SymbolicParams(Vec::read(from)?)))
    }
}
