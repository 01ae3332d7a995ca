//! Compiles the C shims of peers that Rust cannot call directly.

fn main() {
    #[cfg(feature = "wiredtiger")]
    {
        println!("cargo::rerun-if-changed=src/subjects/wiredtiger.c");
        cc::Build::new()
            .file("src/subjects/wiredtiger.c")
            .compile("buckets");
        println!("cargo::rustc-link-lib=wiredtiger");
    }
}
