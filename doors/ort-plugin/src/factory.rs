//! The factory, which ONNX Runtime gets from the library.

use crate::api::{Api, Result};
use crate::description::Description;
use crate::error::{OPTIONS, PluginError, backend_takes};
use crate::guard::{guarded, quiet};
use crate::provider::Provider;
use crate::raw::{
    API_VERSION, OrtAllocator, OrtApiBase, OrtDataTransferImpl, OrtEp, OrtEpDevice, OrtEpFactory,
    OrtHardwareDevice, OrtKeyValuePairs, OrtLogger, OrtMemoryDevice, OrtMemoryInfo, OrtSessionOptions,
    OrtSyncStreamImpl, Status,
};
use crate::registrations::Registrations;
use crate::settings::Settings;
use bb::{Declared, OpenOptions, Registration, Registry};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// `OrtHardwareDeviceType_CPU`.
const CPU: c_int = 0;

/// A factory of providers. ONNX Runtime's structure is its first field, so that pointers to both are equal.
#[repr(C)]
#[derive(Debug)]
struct Factory {
    raw: OrtEpFactory,
    api: Api,
    /// The name of the providers and their devices.
    name: CString,
    version: CString,
    description: Description,
    /// The name of the exported backend.
    backend: &'static str,
    /// The backends of this library. They are dropped with the factory.
    registry: Registry,
}

/// Creates the factory of a backend.
///
/// # Safety
///
/// The pointers were passed to `CreateEpFactories` by ONNX Runtime.
pub unsafe fn create<B: Declared>(
    registration: *const c_char,
    base: *const OrtApiBase,
    factories: *mut *mut OrtEpFactory,
    most: usize,
    count: *mut usize,
    description: Description,
) -> Status {
    // SAFETY: the caller upholds the safety contract of this function.
    let api = match unsafe { Api::of(base) } {
        Ok(api) => api,
        Err(status) => return status,
    };
    guarded(&api, || {
        if factories.is_null() || count.is_null() || most == 0 {
            return Err(PluginError::Null { what: "the list of factories" });
        }
        // The lock is held until the factory is listed, so that two threads cannot both register the library.
        let mut registrations = Registrations::lock();
        registrations.expect_none(base.addr())?;
        crate::resident::stay();
        let advice = bb_core::error::DoorAdvice {
            backend: "the library of the provider has no others",
            left_out: "the library of the provider was built without it",
            remove: None,
            limits: crate::settings::LIMITS,
        };
        advice.give();
        let name = match registration.is_null() {
            true => String::new(),
            // SAFETY: the caller passed a text.
            false => unsafe { CStr::from_ptr(registration) }.to_string_lossy().into_owned(),
        };
        let factory = Arc::into_raw(Arc::new(Factory::new::<B>(api, description)));
        registrations.add(base.addr(), factory.addr(), name);
        // SAFETY: both are output pointers of the caller.
        unsafe {
            *factories = factory.cast_mut().cast();
            *count = 1;
        }
        Ok(())
    })
}

/// Releases a factory. If providers still exist, it is freed with the last of them, because ONNX Runtime releases them through it.
///
/// # Safety
///
/// The pointer is null or was created by [`create`], and is no longer used.
pub unsafe fn release(factory: *mut OrtEpFactory) -> Status {
    if !factory.is_null() {
        quiet(|| {
            Registrations::lock().remove(factory.addr());
            // SAFETY: the pointer is the reference of ONNX Runtime to a `Factory`, because `raw` is its first field.
            unsafe { Arc::decrement_strong_count(factory.cast::<Factory>()) };
        });
    }
    null_mut()
}

impl Factory {
    fn new<B: Declared>(api: Api, description: Description) -> Factory {
        let raw = OrtEpFactory {
            version: API_VERSION,
            name: factory_name,
            vendor,
            supported_devices,
            create_ep,
            release_ep,
            vendor_id,
            provider_version,
            validate_compiled,
            create_allocator,
            release_allocator,
            create_data_transfer,
            is_stream_aware,
            create_sync_stream,
        };
        let own = Registration::of::<B>();
        let others = Registry::global().entries().filter(|entry| entry.name != own.name);
        let registry =
            others.fold(Registry::builder().registration(own), |all, one| all.registration(one)).build();
        let name = CString::new(format!("bb-{}", B::NAME)).unwrap_or_default();
        let version = CString::new(B::VERSION).unwrap_or_default();
        Factory { raw, api, name, version, description, backend: B::NAME, registry }
    }

    /// Creates a provider with the options of a session.
    unsafe fn provider(&self, options: *const OrtSessionOptions) -> Result<*mut OrtEp> {
        // SAFETY: the caller passes the options from the running call.
        let entries = if options.is_null() { Vec::new() } else { unsafe { self.api.entries(options)? } };
        let settings = Settings::read(&self.name.to_string_lossy(), entries)?;
        let name = settings.backend.as_deref().unwrap_or(self.backend);
        let opened = self.registry.backend_with(name, &settings.open);
        let on = opened.map_err(|error| unknown(name, &settings.open, error))?;
        Ok(Provider::make(self.api, self.name.clone(), on, settings))
    }
}

/// Adds the options of the plugin to the error of an option of the session that the backend lacks. Does not open the backend. An option
/// in the backend's name is one of the backend only.
fn unknown(name: &str, given: &OpenOptions, error: bb::Error) -> PluginError {
    let is_setting = |option: &str| given.texts().iter().any(|(setting, _)| setting == option);
    match error {
        bb::Error::UnknownOption { option, takes, .. } if is_setting(&option) => {
            let own = OPTIONS.iter().copied().filter(|name| !name.contains('.'));
            let names = own.chain(takes.iter().map(String::as_str));
            let nearest = bb_core::ir::nearest(&option.to_lowercase(), names).map(str::to_owned);
            PluginError::UnknownOption { option, nearest, backend: backend_takes(name, &takes) }
        }
        // Other backends take this option, so that its name is not a mistyped one.
        bb::Error::OpenOption { option, takes, .. } if is_setting(option.name()) => {
            let takes: Vec<String> = takes.iter().map(|option| option.name().to_owned()).collect();
            let option = option.name().to_owned();
            PluginError::UnknownOption { option, nearest: None, backend: backend_takes(name, &takes) }
        }
        other => other.into(),
    }
}

/// # Safety
///
/// For this and the functions below: ONNX Runtime calls them with a factory that `create` created and `release` has not released, and with
/// other pointers that conform to its header.
unsafe extern "system" fn factory_name(factory: *const OrtEpFactory) -> *const c_char {
    // SAFETY: the pointer belongs to a factory.
    unsafe { &*factory.cast::<Factory>() }.name.as_ptr()
}

unsafe extern "system" fn vendor(factory: *const OrtEpFactory) -> *const c_char {
    // SAFETY: the pointer belongs to a factory.
    unsafe { &*factory.cast::<Factory>() }.description.vendor.as_ptr()
}

unsafe extern "system" fn vendor_id(factory: *const OrtEpFactory) -> u32 {
    // SAFETY: the pointer belongs to a factory.
    unsafe { &*factory.cast::<Factory>() }.description.vendor_id
}

unsafe extern "system" fn provider_version(factory: *const OrtEpFactory) -> *const c_char {
    // SAFETY: the pointer belongs to a factory.
    unsafe { &*factory.cast::<Factory>() }.version.as_ptr()
}

/// Selects the CPU device, because tensors are in its memory.
unsafe extern "system" fn supported_devices(
    factory: *mut OrtEpFactory,
    devices: *const *const OrtHardwareDevice,
    count: usize,
    chosen: *mut *mut OrtEpDevice,
    most: usize,
    chosen_count: *mut usize,
) -> Status {
    // SAFETY: the pointer belongs to a factory, which is not mutated.
    let Factory { api, description, .. } = unsafe { &*factory.cast::<Factory>() };
    guarded(api, || {
        if chosen_count.is_null() || (count > 0 && (devices.is_null() || chosen.is_null())) {
            return Err(PluginError::Null { what: "an argument of `GetSupportedDevices`" });
        }
        // SAFETY: the output pointer is the caller's.
        unsafe { *chosen_count = 0 };
        for at in 0..count {
            // SAFETY: the list has `count` devices.
            let device = unsafe { *devices.add(at) };
            // SAFETY: the device is in the list.
            if most == 0 || unsafe { api.table().hardware_device_type(device) } != CPU {
                continue;
            }
            let metadata = api.key_value_pairs(description.metadata);
            let mut made = null_mut();
            // SAFETY: the factory is the caller's; options are optional.
            let status =
                unsafe { api.ep().create_ep_device(factory, device, metadata, null(), &raw mut made) };
            // SAFETY: the pairs were created here, and ONNX Runtime has copied them.
            unsafe { api.table().release_key_value_pairs(metadata) };
            api.checked(status)?;
            // SAFETY: the list has room for a device, and ONNX Runtime takes the ownership.
            unsafe {
                *chosen = made;
                *chosen_count = 1;
            }
            break;
        }
        Ok(())
    })
}

unsafe extern "system" fn create_ep(
    factory: *mut OrtEpFactory,
    _devices: *const *const OrtHardwareDevice,
    _metadata: *const *const OrtKeyValuePairs,
    _count: usize,
    options: *const OrtSessionOptions,
    _logger: *const OrtLogger,
    made: *mut *mut OrtEp,
) -> Status {
    let place = factory.cast::<Factory>().cast_const();
    // SAFETY: the pointer belongs to a factory, which is not mutated.
    let factory = unsafe { &*place };
    guarded(&factory.api, || {
        if made.is_null() {
            return Err(PluginError::Null { what: "the place for the provider" });
        }
        // SAFETY: the output pointer and the options are the caller's.
        unsafe {
            *made = null_mut();
            *made = factory.provider(options)?;
            // The provider is a reference to the factory, which `release_ep` drops.
            Arc::increment_strong_count(place);
        }
        Ok(())
    })
}

/// Releases a provider. Backends that no other session uses are closed, so that their threads end.
unsafe extern "system" fn release_ep(factory: *mut OrtEpFactory, provider: *mut OrtEp) {
    if provider.is_null() {
        return;
    }
    // SAFETY: the provider was created by `create_ep`, which also took a reference to the factory.
    let factory = unsafe {
        Provider::release(provider);
        Arc::from_raw(factory.cast::<Factory>().cast_const())
    };
    quiet(|| {
        factory.registry.close_unused();
        drop(factory);
    });
}

unsafe extern "system" fn validate_compiled(
    _factory: *mut OrtEpFactory,
    _devices: *const *const OrtHardwareDevice,
    _count: usize,
    _compiled: *const c_char,
    compatibility: *mut c_int,
) -> Status {
    if !compatibility.is_null() {
        // `OrtCompiledModelCompatibility_EP_NOT_APPLICABLE`, because models are not compiled ahead of time.
        // SAFETY: the output pointer is the caller's.
        unsafe { *compatibility = 0 };
    }
    null_mut()
}

/// Writes a null pointer for an object that is not needed.
///
/// # Safety
///
/// The output pointer is null or may be written.
unsafe fn nothing<T>(place: *mut *mut T) -> Status {
    if !place.is_null() {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe { *place = null_mut() };
    }
    null_mut()
}

unsafe extern "system" fn create_allocator(
    _factory: *mut OrtEpFactory,
    _memory: *const OrtMemoryInfo,
    _options: *const OrtKeyValuePairs,
    made: *mut *mut OrtAllocator,
) -> Status {
    // SAFETY: ONNX Runtime passed the output pointer.
    unsafe { nothing(made) }
}

unsafe extern "system" fn release_allocator(_factory: *mut OrtEpFactory, _allocator: *mut OrtAllocator) {}

unsafe extern "system" fn create_data_transfer(
    _factory: *mut OrtEpFactory,
    made: *mut *mut OrtDataTransferImpl,
) -> Status {
    // SAFETY: ONNX Runtime passed the output pointer.
    unsafe { nothing(made) }
}

unsafe extern "system" fn is_stream_aware(_factory: *const OrtEpFactory) -> bool {
    false
}

unsafe extern "system" fn create_sync_stream(
    _factory: *mut OrtEpFactory,
    _device: *const OrtMemoryDevice,
    _options: *const OrtKeyValuePairs,
    made: *mut *mut OrtSyncStreamImpl,
) -> Status {
    // SAFETY: ONNX Runtime passed the output pointer.
    unsafe { nothing(made) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use bb::ir::op::Param;
    use bb::{Backend, Outputs, Primitive, TensorData};
    use bb_reference::{Error, Reference, Tensor};
    use std::result::Result;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether the constructor of [`Unopened`] was called.
    static IS_OPENED: AtomicBool = AtomicBool::new(false);

    #[derive(Debug, bb::Backend)]
    #[bb(name = "unopened", open = Unopened::open, options(tile: u64 = 64 => "rows of a tile"))]
    struct Unopened(Reference);

    impl Unopened {
        fn open(_: &OpenOptions) -> Unopened {
            IS_OPENED.store(true, Ordering::Relaxed);
            Unopened(Reference)
        }

        fn call(
            &self,
            op: Primitive,
            inputs: &[Option<&Tensor>],
            params: &[Param<'_>],
        ) -> Result<Outputs<Tensor>, Error> {
            bb::call_primitive(&self.0, op, inputs, params)
        }
    }

    impl Backend for Unopened {
        type Tensor = Tensor;
        type Error = Error;

        bb::forward_to_call!(Self::call);

        fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
            self.0.to_host(x)
        }
    }

    /// Returns the message for an option of a session.
    fn refused(option: &str, value: &str) -> String {
        let registry = Registry::builder().registration(Registration::of::<Unopened>()).build();
        let given = OpenOptions::default().with_text(option, value).unwrap();
        let error = registry.backend_with("unopened", &given).unwrap_err();
        unknown("unopened", &given, error).to_string()
    }

    #[test]
    fn a_wrong_option_is_refused_before_the_constructor_and_lists_all_options() {
        let takes = "it takes `backend`, `host`, `native_only`, `report`, `limits.NAME`, and the backend `unopened` takes `tile`, and \
                     `narrow_floats` if it lacks a float type";
        let wrong = |name| format!("the provider has no option `{name}");
        assert_eq!(refused("tiel", "64"), format!("{}` (did you mean `tile`?); {takes}", wrong("tiel")));
        assert_eq!(refused("threads", "2"), format!("{}`; {takes}", wrong("threads")));
        assert_eq!(
            refused("tile", "wide"),
            "the option `tile` is `wide`; expected a whole number, at least 0"
        );
        assert!(!IS_OPENED.load(Ordering::Relaxed));
    }
}
