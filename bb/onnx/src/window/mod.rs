//! Convolution and pooling. Their attributes are resolved to explicit values here.

mod attributes;
pub(crate) mod conv;
pub(crate) mod pool;

pub(crate) use attributes::{filter_kernel, numbers};
pub(crate) use conv::with_conv_options;
pub use conv::{conv_shape, conv_shape_of, conv_types, plain_conv, plain_conv_transpose, transposed_shape};
pub(crate) use pool::Pooling;
pub use pool::{
    global_pool_shape, global_pool_types, over_space, plain_average_pool, plain_max_pool, pool_shape,
    pool_types,
};
