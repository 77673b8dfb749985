//! The macro that expands a family's table to the trait, the enum of its operations and the call by index.

/// Expands table rows to an extension family.
///
/// The arguments are `family!{ [$(#[$doc:meta])* Trait, OpEnum, module] rows }`. The body of each row is the function
/// with the row's name in `crate::ext::module`.
///
/// A row has the grammar of a primitive's row (`bb_ir::op::table`). Between the operands and the result it may have
/// options:
///
/// ```text
/// MaxPool 22 = max_pool(x: Tensor; kernel: Ints) with options: MaxPoolOptions<'a> {
///     /// The documentation of the field.
///     strides: Ints = &[],
///     ceil: Bool = false,
/// } -> Tensor;
/// ```
///
/// If a row with several parameters would have more than four arguments, its optional parameters are options. They
/// become the fields of the struct that the row names, which methods and bodies take as their last argument. Each
/// option has a default, so the struct implements `Default`; a required parameter stays an argument. The struct has a
/// lifetime if one of its fields borrows. In lists of parameters ([`Param`](bb_ir::op::Param)), options follow the
/// other parameters.
macro_rules! family {
    ([$(#[$tdoc:meta])* $trait:ident, $enum:ident, $module:ident] $($rows:tt)*) => {
        bb_ir::op_family!{ [#[doc = concat!("An operation of the family `", stringify!($trait), "`.")] $enum, bb_ir::op::Family::$trait] $($rows)* }
        crate::call::op_call!{ [call, $enum, $trait] $($rows)* }
        crate::family::family_options!{ [$trait] $($rows)* }
        crate::family::family_trait!{ [$(#[$tdoc])* $trait, $enum, $module] $($rows)* }
        crate::family::family_extended!{ [$trait, $enum, $module] $($rows)* }
    };
}

/// Expands the options of rows to structs, and asserts that every row that needs options has them.
#[doc(hidden)]
#[macro_export]
macro_rules! __family_options {
    ([$trait:ident] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       $(with $options:ident : $struct:ident $(<$life:lifetime>)?
         { $( $(#[$odoc:meta])* $option:ident : $okind:ident = $odefault:expr ),+ $(,)? })?
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        $( const _: () = {
            const OPERANDS: &[&str] = &[$(::core::stringify!($input)),*];
            const PARAMS: &[&str] = &[$($(::core::stringify!($param)),+)?];
            ::core::assert!(
                PARAMS.len() < 2 || OPERANDS.len() + PARAMS.len() <= 4,
                ::core::concat!("`", ::core::stringify!($method), "` has more than four arguments: make optional parameters its options")
            );
        }; )*
        $( $( $crate::__options_struct!{
            #[doc = ::core::concat!("The options of [`", ::core::stringify!($method), "`](", ::core::stringify!($trait), "::", ::core::stringify!($method), ").")]
            $struct $(<$life>)? { $( $(#[$odoc])* $option: $okind = $odefault ),+ }
        } )? )*
    };
}

/// Expands the options of a row to a struct. The first two rules determine the types of the fields, because a field
/// that borrows needs the lifetime.
#[doc(hidden)]
#[macro_export]
macro_rules! __options_struct {
    ($(#[$doc:meta])* $struct:ident { $( $(#[$odoc:meta])* $option:ident : $kind:ident = $default:expr ),+ }) => {
        $crate::__options_struct!{
            @ $(#[$doc])* $struct [] { $( $(#[$odoc])* $option: [$crate::__private::ir::param_type!($kind)] = $default ),+ }
        }
    };
    ($(#[$doc:meta])* $struct:ident<$life:lifetime> { $( $(#[$odoc:meta])* $option:ident : $kind:ident = $default:expr ),+ }) => {
        $crate::__options_struct!{
            @ $(#[$doc])* $struct [<$life>] { $( $(#[$odoc])* $option: [$crate::__private::ir::param_type!($kind $life)] = $default ),+ }
        }
    };
    (@ $(#[$doc:meta])* $struct:ident [$($generics:tt)*] { $( $(#[$odoc:meta])* $option:ident : [$type:ty] = $default:expr ),+ }) => {
        $(#[$doc])*
        ///
        /// `..Default::default()` sets the fields that are not written.
        #[derive(::core::fmt::Debug, ::core::clone::Clone, ::core::marker::Copy, ::core::cmp::PartialEq)]
        pub struct $struct $($generics)* { $(
            $(#[$odoc])*
            ///
            #[doc = ::core::concat!("Default: `", ::core::stringify!($default), "`.")]
            pub $option: $type,
        )+ }

        impl $($generics)* ::core::default::Default for $struct $($generics)* {
            fn default() -> Self {
                Self { $( $option: $default ),+ }
            }
        }
    };
}

macro_rules! family_trait {
    ([$(#[$tdoc:meta])* $trait:ident, $enum:ident, $module:ident] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       $(with $options:ident : $struct:ident $(<$life:lifetime>)?
         { $( $(#[$odoc:meta])* $option:ident : $okind:ident = $odefault:expr ),+ $(,)? })?
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        $(#[$tdoc])*
        #[diagnostic::on_unimplemented(
            message = "`{Self}` has not adopted this extension family",
            note = "write `#[bb::native]` and an `impl` of the trait for `{Self}`: methods written in it are native, and every other has a default body",
            note = "if `{Self}` is the type parameter of a layer, call `self.inner.native(…)` with the operation's `spec()`, which every inner backend has, or add the trait to the bounds of the struct and of every `impl` of the layer"
        )]
        pub trait $trait: crate::Backend + crate::contract::Native<$enum> {
            $(
                $(#[$doc])*
                #[allow(clippy::too_many_arguments, reason = "some operations have many operands")]
                fn $method(&self $(, $input: crate::__input_type!($kind))* $($(, $param: bb_ir::param_type!($pkind))+)? $(, $options: $struct)?)
                    -> Result<crate::__output_type!($output), Self::Error> {
                    const SPEC: &bb_ir::op::OpSpec = $enum::$name.spec();
                    let outputs = crate::family::Extended::new(self, &[table::<Self>().without(SPEC.index)]).call(
                        SPEC,
                        &crate::call::list_operands!($($kind $input),*),
                        &crate::call::list_params!($($($pkind $param),+)? $(; $options $($okind $option),+)?),
                    )?;
                    crate::call::unwrap_output!($output, stringify!($method), outputs)
                }
            )*
        }

        /// Returns the family as a table for [`Extended`](crate::family::Extended) and [`Runtime`](crate::Runtime).
        pub const fn table<B: $trait + ?Sized>() -> crate::contract::FamilyTable<B> {
            crate::contract::FamilyTable::new(
                bb_ir::op::Family::$trait,
                {
                    let mut bits = crate::contract::FamilyTable::<B>::NONE;
                    let mut i = 0;
                    #[expect(clippy::indexing_slicing, reason = "const loop below the length")]
                    while i < <B as crate::contract::Native<$enum>>::NATIVE.len() {
                        bits = bits.with(<B as crate::contract::Native<$enum>>::NATIVE[i] as u16);
                        i += 1;
                    }
                    bits
                },
                |on, spec, inputs, params| match $enum::from_index(spec.index) {
                    Some(op) => call_native(on, op, inputs, params),
                    None => Err(crate::Error::unknown_row(spec).into()),
                },
            )
        }

        /// Calls an operation: the backend's method if it is native, otherwise the body.
        ///
        /// If the backend did not write a method, its call is not compiled, because the conditions are constants.
        #[allow(unused_mut, unused_variables, reason = "some rows have no operands or no parameters")]
        fn call_native<B: $trait + ?Sized>(
            on: &B,
            op: $enum,
            inputs: &[Option<&B::Tensor>],
            params: &[bb_ir::op::Param<'_>],
        ) -> Result<crate::Outputs<B::Tensor>, B::Error> {
            match op {
                $( $enum::$name if const { table::<B>().native().contains($enum::$name as u16) } => {
                    crate::call::call_method! {
                        [$enum::$name, <B as $trait>::$method, on, inputs, params]
                        ( $($input: $kind),* ; $($( $param: $pkind ),+)? )
                        $(with $struct { $($option: $okind),+ })? -> $output
                    }
                } )*
                op => crate::family::Extended::new(on, &[table::<B>()]).call(op.spec(), inputs, params),
            }
        }
    };
}

macro_rules! family_extended {
    ([$trait:ident, $enum:ident, $module:ident] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       $(with $options:ident : $struct:ident $(<$life:lifetime>)?
         { $( $(#[$odoc:meta])* $option:ident : $okind:ident = $odefault:expr ),+ $(,)? })?
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        #[diagnostic::do_not_recommend]
        impl<B: crate::Backend + ?Sized> crate::contract::Native<$enum> for crate::family::Extended<'_, B> {
            const NATIVE: &'static [$enum] = &[];
        }

        #[diagnostic::do_not_recommend]
        impl<B: crate::Backend + ?Sized> $trait for crate::family::Extended<'_, B> {
            $(
                #[allow(clippy::too_many_arguments, reason = "some operations have many operands")]
                fn $method(&self $(, $input: crate::__input_type!($kind))* $($(, $param: bb_ir::param_type!($pkind))+)? $(, $options: $struct)?)
                    -> Result<crate::__output_type!($output), Self::Error> {
                    let outputs = self.call(
                        $enum::$name.spec(),
                        &crate::call::list_operands!($($kind $input),*),
                        &crate::call::list_params!($($($pkind $param),+)? $(; $options $($okind $option),+)?),
                    )?;
                    crate::call::unwrap_output!($output, stringify!($method), outputs)
                }
            )*
        }
    };
}

pub(crate) use {__family_options as family_options, family, family_extended, family_trait};
