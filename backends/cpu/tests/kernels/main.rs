//! Compares kernels, prepared kernels, fused kernels and their errors with definitions and with the
//! reference backend.

mod accuracy;
mod attention;
mod definition;
mod elements;
mod fused;
mod indexed;
mod natives;
mod numbers;
mod prepared;
mod properties;
mod ragged;
mod ragged_bytes;
mod recurrent;
mod sampling;
mod sums;
mod views;
