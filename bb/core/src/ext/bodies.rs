//! The macros that expand a family's table to its methods on the tracer.

/// Expands rows to the bodies by number, and to the family's trait for the tracer: `bodies!{ [Trait, OpEnum, module] rows }`.
macro_rules! bodies {
    ([$trait:ident, $enum:ident, $module:ident] $($rows:tt)*) => {
        crate::ext::bodies::family_body!{ [$trait, $enum, $module] $($rows)* }
        crate::ext::bodies::family_tracer!{ [$trait, $enum, $module] $($rows)* }
    };
}

/// Expands rows to a function that traces the body of an operation by its index.
macro_rules! family_body {
    ([$trait:ident, $enum:ident, $module:ident] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       $(with $options:ident : $struct:ident $(<$life:lifetime>)?
         { $( $(#[$odoc:meta])* $option:ident : $okind:ident = $odefault:expr ),+ $(,)? })?
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        /// Traces the body of an operation, with its operands and parameters in the order of its row.
        #[allow(unused_mut, unused_variables, reason = "some rows have no operands or no parameters")]
        pub(crate) fn call_body(
            on: &crate::trace::Tracer,
            op: $enum,
            inputs: &[Option<&crate::trace::TracedTensor>],
            params: &[bb_ir::op::Param<'_>],
        ) -> Result<crate::Outputs<crate::trace::TracedTensor>, crate::trace::TraceStop> {
            match op { $( $enum::$name => crate::call::call_method! {
                [$enum::$name, crate::ext::$module::$method, on, inputs, params]
                ( $($input: $kind),* ; $($( $param: $pkind ),+)? )
                $(with $struct { $($option: $okind),+ })? -> $output
            }, )* }
        }
    };
}

macro_rules! family_tracer {
    ([$trait:ident, $enum:ident, $module:ident] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       $(with $options:ident : $struct:ident $(<$life:lifetime>)?
         { $( $(#[$odoc:meta])* $option:ident : $okind:ident = $odefault:expr ),+ $(,)? })?
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        #[diagnostic::do_not_recommend]
        impl crate::contract::Native<$enum> for crate::trace::Tracer {
            const NATIVE: &'static [$enum] = &[];
        }

        #[diagnostic::do_not_recommend]
        impl $trait for crate::trace::Tracer {
            $(
                #[allow(clippy::too_many_arguments, reason = "some operations have many operands")]
                fn $method(&self $(, $input: crate::__input_type!($kind))* $($(, $param: bb_ir::param_type!($pkind))+)? $(, $options: $struct)?)
                    -> Result<crate::__output_type!($output), Self::Error> {
                    const SPEC: &bb_ir::op::OpSpec = $enum::$name.spec();
                    let (inputs, params) = (
                        crate::call::list_operands!($($kind $input),*),
                        crate::call::list_params!($($($pkind $param),+)? $(; $options $($okind $option),+)?),
                    );
                    let kept = self.keeps(SPEC, &inputs, &params);
                    if kept == crate::trace::Kept::Never {
                        return crate::ext::$module::$method(self $(, $input)* $($(, $param)+)? $(, $options)?);
                    }
                    let mark = self.enter_native();
                    let body = match self.elementwise_result(SPEC, &inputs, &params) {
                        Some(result) => crate::Outputs::from_buf([result]),
                        None => {
                            let body = crate::ext::$module::$method(self $(, $input)* $($(, $param)+)? $(, $options)?);
                            let body = crate::call::wrap_output!($output, body)?;
                            self.note_elementwise(SPEC, &inputs, &params, &body);
                            body
                        }
                    };
                    let outputs = self.record_native(mark, kept, SPEC, &inputs, &params, body)?;
                    crate::call::unwrap_output!($output, stringify!($method), outputs)
                }
            )*
        }
    };
}

pub(crate) use {bodies, family_body, family_tracer};
