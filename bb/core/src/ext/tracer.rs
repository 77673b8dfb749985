//! Operations of the tracer on extents, whose parameters become expressions.

use super::vendor::{self, MadeOf};
use super::{
    CreateOp, Extent, Extents, HostKernel, Ops, VendorType, integers, iota, iota_elements, negative, numbers,
    product, types,
};
use crate::trace::{Follow, Kept, Recipe, TraceStop, TracedElements, TracedTensor, Tracer, Type, When};
use crate::{Backend, Outputs, Tensor};
use bb_ir::infer::RuleParam;
use bb_ir::op::{Class, OpSpec, Param, Primitive};
use bb_ir::{DataType, Shape, TensorData};

/// The maximum number of indices for repeating a symbolic extent. For larger numbers the trace is tied to the extent,
/// and the indices are computed as a product.
const INDICES: i64 = 1 << 16;

/// The maximum length of a range whose elements tracing tracks individually.
const FOLLOWED: usize = 256;

impl Tracer {
    /// Returns whether an extent of a tensor equals a number.
    pub(crate) fn has_extent(&self, x: &TracedTensor, axis: usize, number: usize) -> bool {
        if !self.symbolic {
            // This is only a check and computes nothing, so the trace is not tied to the extents.
            return x.present().get(axis) == Some(&number);
        }
        i64::try_from(number).is_ok_and(|number| self.extent(x, axis).is(number))
    }

    /// Returns placeholder results of these types if only the types of a native operation are traced, so that its body
    /// can be skipped; otherwise `None`.
    pub(crate) fn stand_ins(&self, results: &[(DataType, &[Extent])]) -> Option<Vec<TracedTensor>> {
        self.in_body()
            .then(|| results.iter().map(|(dtype, extents)| self.stand_in(*dtype, extents)).collect())
    }

    /// Returns a placeholder result of a native element-wise operation, if only its type is traced and a call like it was traced before,
    /// so that its body can be skipped; otherwise `None`.
    pub(crate) fn elementwise_result(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&TracedTensor>],
        params: &[Param<'_>],
    ) -> Option<TracedTensor> {
        if spec.class != Class::Elementwise || !self.in_body() {
            return None;
        }
        let operands = || inputs.iter().copied().flatten();
        // If all elements are known, the body is needed to compute the result's elements.
        if !operands().any(|x| matches!(x.elements(), TracedElements::Unknown)) {
            return None;
        }
        let dtype = self.elementwise_type(spec, inputs, params)?;
        let fits = |x: &TracedTensor, to: &TracedTensor| std::ptr::eq(x, to) || self.broadcasts_to(x, to);
        let largest = operands().find(|to| operands().all(|x| fits(x, to)))?;
        Some(self.stand_in(dtype, &self.extents(largest)))
    }

    /// Stores the element type of the result of a native element-wise operation for [`elementwise_result`](Self::elementwise_result).
    pub(crate) fn note_elementwise(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&TracedTensor>],
        params: &[Param<'_>],
        results: &[TracedTensor],
    ) {
        if let ([y], Class::Elementwise) = (results, spec.class)
            && self.in_body()
        {
            self.add_elementwise_type(spec, inputs, params, y.dtype());
        }
    }

    fn are_fixed(extents: &[Extent]) -> bool {
        extents.iter().all(Extent::is_fixed)
    }

    fn one(
        &self,
        op: Primitive,
        x: &TracedTensor,
        params: &[RuleParam<'_, Extent>],
    ) -> Result<TracedTensor, TraceStop> {
        let outputs = self.apply_with(op, &[x], params)?;
        crate::call::unwrap_output!(Tensor, op.spec().method, outputs)
    }

    /// The body of [`expand_to`](Ops::expand_to): gathers the only entry along each dimension that grows.
    fn expanded(&self, x: &TracedTensor, shape: &[Extent]) -> Result<TracedTensor, TraceStop> {
        let from = self.extents(x);
        let wrong = || bb_ir::Error::Shapes {
            op: "expand",
            left: x.present().as_slice().into(),
            right: shape.iter().map(|e| usize::try_from(e.present()).unwrap_or(0)).collect(),
        };
        let new = shape.len().checked_sub(from.len()).ok_or_else(wrong)?;
        let leading: Vec<i64> = (0..new as i64).collect();
        let mut y = if new == 0 { self.identity(x)? } else { self.unsqueeze(x, &leading)? };
        let one = Extent::from(1i64);
        let have = std::iter::repeat_n(&one, new).chain(&from);
        for (axis, (have, want)) in have.zip(shape).enumerate() {
            if have.is_same(want) {
                continue;
            }
            if have.is(1) {
                let zero = Extent::from(0i64);
                y = self.gather(&y, &self.iota(&zero, &zero, want)?, axis as i64)?;
            } else if !have.equals(want) {
                return Err(wrong().into());
            }
        }
        Ok(y)
    }
}

impl Ops for Tracer {
    fn on_host(
        &self,
        body: &'static HostKernel,
        inputs: &[Option<&TracedTensor>],
        params: &[Param<'_>],
        results: &[(DataType, Shape)],
    ) -> Result<Outputs<TracedTensor>, TraceStop> {
        Ok(self.record_host(body, inputs, params, results)?)
    }

    fn vendor(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&TracedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<TracedTensor>, TraceStop> {
        let operation = vendor::required(op)?;
        let kept = self.keeps(op, inputs, params);
        let types = match (operation.made_of(), kept) {
            (MadeOf::Body(traced), Kept::Never) => return traced(self, inputs, params),
            (MadeOf::Body(traced), _) => {
                let mark = self.enter_native();
                let body = traced(self, inputs, params)?;
                return Ok(self.record_native(mark, kept, op, inputs, params, body)?);
            }
            (MadeOf::Kernel(_), Kept::Never) => return Err(vendor::no_body(op).into()),
            (MadeOf::Kernel(types), _) => types,
        };
        let of = |x: &TracedTensor| VendorType { dtype: x.dtype(), extents: self.extents(x) };
        let operands: Vec<Option<VendorType>> = inputs.iter().map(|x| x.map(of)).collect();
        let results = types(&operands, params)?;
        let mark = self.enter_native();
        let made = results.iter().map(|ty| self.stand_in(ty.dtype, &ty.extents)).collect();
        Ok(self.record_native(mark, kept, op, inputs, params, made)?)
    }

    fn tracer(&self) -> Option<&Tracer> {
        Some(self)
    }

    fn extents(&self, x: &TracedTensor) -> Extents {
        if self.symbolic {
            return x.extents().iter().map(Extent::settled).collect();
        }
        x.shape().iter().map(|&extent| Extent::from(extent)).collect()
    }

    fn extent(&self, x: &TracedTensor, axis: usize) -> Extent {
        let extent = x.extent(axis).unwrap_or_else(|| Extent::from(0i64));
        if self.symbolic { extent.settled() } else { Extent::from(extent.number()) }
    }

    fn broadcasts_to(&self, x: &TracedTensor, to: &TracedTensor) -> bool {
        if !self.symbolic {
            // This is only a check and computes nothing, so the trace is not tied to the extents.
            return types::broadcasts(x.present(), to.present());
        }
        let (own, to) = (self.extents(x), self.extents(to));
        let fits =
            |(own, to): (&Extent, &Extent)| (own.is_fixed() && own.is(1)) || own.equals(to) || own.is(1);
        own.len() <= to.len() && own.iter().rev().zip(to.iter().rev()).all(fits)
    }

    fn extents_of(&self, x: &TracedTensor) -> Result<Vec<Extent>, TraceStop> {
        match x.elements() {
            TracedElements::OfExtents(_, Follow::Each(each)) if self.symbolic => {
                Ok(each.iter().map(Extent::settled).collect())
            }
            _ => Ok(integers(&self.to_host(x)?)?.into_iter().map(Extent::from).collect()),
        }
    }

    fn ints_of(&self, shape: &[usize], values: &[Extent]) -> Result<TracedTensor, TraceStop> {
        let data: Vec<i64> = values.iter().map(Extent::present).collect();
        Ok(self.push_each(TensorData::new(shape, &data)?, values.into()))
    }

    fn iota(&self, start: &Extent, step: &Extent, count: &Extent) -> Result<TracedTensor, TraceStop> {
        let parts = [start, step, count].map(Extent::clone);
        let present = usize::try_from(count.present()).map_err(|_| negative(&parts))?;
        // Runs may not create more elements than the limit. In the body of a native operation only the types are
        // needed, so a placeholder suffices.
        if let Err(too_large) = self.bound_one(DataType::I64, &Shape::from_slice(&[present])) {
            let in_body = self.in_body();
            return if in_body {
                Ok(self.stand_in(DataType::I64, std::slice::from_ref(count)))
            } else {
                Err(too_large.into())
            };
        }
        if Tracer::are_fixed(&parts) {
            return iota(self, start, step, present);
        }
        Extent::from(self.limit() / 8).at_least(count);
        let elements = iota_elements(start, step, present)?;
        let data = TensorData::new(&[present], &elements)?;
        if count.is_fixed() && present <= FOLLOWED {
            let at = |i: usize| start.plus(&step.times(&Extent::from(i)));
            return Ok(self.push_each(data, (0..present).map(at).collect()));
        }
        let extents = Extents::from_iter([count.clone()]);
        let ty = Type::varying(DataType::I64, Shape::from_slice(&[present]), extents);
        let [tied, requires] = [Extent::tied, Extent::when]
            .map(|conditions| parts.iter().fold(When::ALWAYS, |all, part| all.and(&conditions(part))));
        let recipe = Recipe::Range { start: start.expr(), step: step.expr(), count: count.expr() };
        Ok(self.push_recipe(ty, data, recipe, Follow::When(tied), requires))
    }

    fn reshape_to(&self, x: &TracedTensor, shape: &[Extent]) -> Result<TracedTensor, TraceStop> {
        self.one(Primitive::Reshape, x, &[RuleParam::Extents(shape)])
    }

    fn slice_to(
        &self,
        x: &TracedTensor,
        starts: &[Extent],
        ends: &[Extent],
        axes: &[i64],
        steps: &[i64],
    ) -> Result<TracedTensor, TraceStop> {
        let numbers = |extents: &[Extent]| Param::Ints(extents.iter().map(Extent::present).collect());
        let fixed = [numbers(starts), numbers(ends)];
        let bounds = |extents, fixed| match Tracer::are_fixed(extents) {
            true => RuleParam::Fixed(fixed),
            false => RuleParam::Ints(extents),
        };
        let [from, to] = &fixed;
        let [axes, steps] = [axes, steps].map(|list| Param::Ints(list.into()));
        let params =
            [bounds(starts, from), bounds(ends, to), RuleParam::Fixed(&axes), RuleParam::Fixed(&steps)];
        self.one(Primitive::Slice, x, &params)
    }

    fn split_to(
        &self,
        x: &TracedTensor,
        axis: i64,
        sizes: &[Extent],
    ) -> Result<Vec<TracedTensor>, TraceStop> {
        let axis = Param::Int(axis);
        let params = [RuleParam::Fixed(&axis), RuleParam::Extents(sizes)];
        Ok(self.apply_with(Primitive::Split, &[x], &params)?.into_iter().collect())
    }

    fn expand_to(&self, x: &TracedTensor, shape: &[Extent]) -> Result<TracedTensor, TraceStop> {
        let most = shape.iter().filter(|extent| !extent.is_fixed());
        if most.clone().next().is_none() || most.map(Extent::present).any(|extent| extent >= INDICES) {
            return super::Create::expand(self, x, &numbers::<Tracer>(shape)?);
        }
        // The limit on the bytes of a value applies to every run, not only to the traced extents.
        let bytes = Extent::from(x.dtype().bits().div_ceil(8).max(1));
        let limit = Extent::from(self.limit());
        if !limit.at_least(&product(shape).times(&bytes)) {
            return super::Create::expand(self, x, &numbers::<Tracer>(shape)?);
        }
        let params = [RuleParam::Extents(shape)];
        self.call_with(CreateOp::Expand.spec(), &[Some(x)], &params, || self.expanded(x, shape))
    }

    fn full_to(&self, shape: &[Extent], value: f64, dtype: DataType) -> Result<TracedTensor, TraceStop> {
        if Tracer::are_fixed(shape) {
            return super::Create::full(self, &numbers::<Tracer>(shape)?, value, dtype);
        }
        let one = super::Create::full(self, &[], value, dtype)?;
        let (value, dtype) = (Param::Float(value), Param::Type(dtype));
        let params = [RuleParam::Extents(shape), RuleParam::Fixed(&value), RuleParam::Fixed(&dtype)];
        self.call_with(CreateOp::Full.spec(), &[], &params, || self.expand_to(&one, shape))
    }
}
