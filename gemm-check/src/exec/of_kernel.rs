//! Launch files for schedules: what a launch of the compiler's own PTX has to state.

use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::epilogue::Axis;
use ptx_gemm_dsl::terms::{Operand, Param, Swizzle};
use ptx_gemm_dsl::types::Batch;
use ptx_gemm_runtime::interface::{Entry, Extents, KernelLaunch, Launched, TensorMap};
use ptx_gemm_runtime::{INTERPRETER_WAVE, Kernel, Shape};
use serde_json::{Map, Value, json};

/// Bytes of a unit that TMA copies; the strides of a tensor map are multiples of it.
const TMA_BYTES: usize = 16;

/// A launch file for a product of these extents: random operands, the smallest leading dimensions that the kernel's
/// first entry takes, scalars of 1.
///
/// # Errors
/// Says why one launch does not compute the product.
pub fn launch_of(kernel: &Kernel, m: usize, n: usize, k: usize) -> Result<Value, String> {
    if kernel.levels().is_some() {
        return Err("a product with `strassen` takes several launches, and a launch file describes one".into());
    }
    let problem = kernel.problem();
    if problem.batch == Batch::Grouped {
        return Err("a launch file has no list of products, which batch(grouped) needs".into());
    }
    let extents = Extents { m: m as u64, n: n as u64, k: k as u64, batch: 1 };
    let interface = kernel.interface();
    let shapes = |entry: &Entry| {
        let of = |operand| shape(kernel, entry, operand, (m, n, k));
        [Operand::A, Operand::B, Operand::C, Operand::D].map(of)
    };
    let suits = |entry: &&Entry| {
        let shapes = shapes(entry);
        let rows = entry.requires.iter().all(|requires| {
            !requires.rows || shapes[requires.operand as usize].run().is_multiple_of(requires.elements as usize)
        });
        rows && entry.undivided(extents.m, extents.n, extents.k).is_none()
    };
    let entry = interface.entries.iter().find(suits).ok_or_else(|| {
        let tile = interface.entries.first().map(|entry| entry.tile);
        let tile = tile.map_or_else(String::new, |tile| format!(" of the tile, {} x {} x {}", tile.m, tile.n, tile.k));
        format!("no entry takes {m} x {n} x {k}: the extents must be multiples{tile}")
    })?;
    if let Some(packing) = entry.packings.iter().find(|packing| packing.always) {
        let name = packing.operand.name().to_uppercase();
        return Err(format!("{name} is copied by a kernel of its own first, and a launch file describes one launch"));
    }
    let main = entry.main().ok_or("the entry launches no kernel")?;
    Ok(File { kernel, entry, main, shapes: shapes(entry), extents }.json())
}

/// An operand with the smallest leading dimension that the entry takes without a copy.
fn shape(kernel: &Kernel, entry: &Entry, operand: Operand, (m, n, k): (usize, usize, usize)) -> Shape {
    let problem = kernel.problem();
    let (rows, cols) = match operand {
        Operand::A => (m, k),
        Operand::B => (k, n),
        Operand::C | Operand::D => (m, n),
    };
    let shape = Shape::packed(rows, cols, problem.layouts.of(operand));
    let packing = entry.packings.iter().find(|packing| packing.operand == operand);
    let elements =
        entry.alignment(operand, problem).elements.max(packing.map_or(1, |packing| packing.requires.elements));
    Shape { ld: shape.ld.next_multiple_of(elements.max(1) as usize), ..shape }
}

struct File<'a> {
    kernel: &'a Kernel,
    entry: &'a Entry,
    main: &'a KernelLaunch,
    shapes: [Shape; 4],
    extents: Extents,
}

impl File<'_> {
    fn json(&self) -> Value {
        let blocks = self.main.grid.blocks(self.extents, INTERPRETER_WAVE);
        let args: Vec<Value> = self.main.params.iter().map(|param| self.arg(param)).collect();
        let mut maps = Map::new();
        for map in &self.main.maps {
            maps.insert(format!("map_{}", map.operand.name()), self.map(map));
        }
        let mut file = json!({
            "entry": self.main.kernel,
            "grid": [blocks, 1, 1],
            "block": [self.main.threads, 1, 1],
            "shared": self.main.dynamic_shared_bytes(),
            "args": args,
            "buffers": self.buffers(blocks),
            "print": ["d"],
        });
        if !maps.is_empty() {
            file["maps"] = maps.into();
        }
        file
    }

    fn shape(&self, operand: Operand) -> Shape {
        self.shapes[operand as usize]
    }

    fn arg(&self, param: &Param) -> Value {
        let problem = self.kernel.problem();
        match param {
            Param::Matrix(operand) => json!({ "buffer": operand.name() }),
            Param::Map(operand) => json!({ "map": format!("map_{}", operand.name()) }),
            Param::Vector(index) => {
                json!({ "buffer": problem.epilogue.vectors.get(*index).map_or("", |vector| &vector.name) })
            }
            Param::M => json!({ "u32": self.extents.m }),
            Param::N => json!({ "u32": self.extents.n }),
            Param::K => json!({ "u32": self.extents.k }),
            Param::Ld(operand) => json!({ "u64": self.shape(*operand).ld }),
            Param::BatchStride(_) | Param::Problems => json!({ "u64": 0 }),
            Param::Scalar(_) => match problem.types.epilogue() {
                DType::F64 => json!({ "f64": 1 }),
                DType::I32 => json!({ "s32": 1 }),
                _ => json!({ "f32": 1 }),
            },
            Param::Batch => json!({ "u32": 1 }),
            Param::Tiles => json!({ "u32": 0 }),
            Param::Workspace | Param::Packed(_) | Param::Scales(_) => json!({ "buffer": "workspace" }),
        }
    }

    fn buffers(&self, blocks: u64) -> Map<String, Value> {
        let problem = self.kernel.problem();
        let mut buffers = Map::new();
        for (seed, operand) in (1..).zip(self.kernel.interface().matrices()) {
            let shape = self.shape(operand);
            let ty = element(problem.types.of(operand));
            let mut buffer = json!({ "type": ty, "shape": [shape.runs(), shape.ld] });
            match operand {
                Operand::A | Operand::B | Operand::C => buffer["init"] = json!({ "random": seed }),
                Operand::D if shape.ld == shape.run() && self.entry.workspace.is_none() => {
                    buffer["write_once"] = true.into();
                }
                Operand::D => buffer["init"] = json!({ "constant": 0 }),
            }
            buffers.insert(operand.name().into(), buffer);
        }
        for (seed, vector) in (5..).zip(&problem.epilogue.vectors) {
            let len = match vector.axis {
                Axis::M => self.extents.m,
                Axis::N => self.extents.n,
            };
            let ty = element(problem.types.epilogue());
            buffers.insert(vector.name.clone(), json!({ "type": ty, "shape": [len], "init": { "random": seed } }));
        }
        let launched = Launched { extents: self.extents, blocks, packed: &|_| false };
        let needs = |param: &Param| matches!(param, Param::Workspace | Param::Packed(_) | Param::Scales(_));
        if self.main.params.iter().any(needs) {
            let bytes = self.entry.workspace_bytes(launched).max(1);
            // The flags of a reduction are zero before a launch.
            buffers.insert("workspace".into(), json!({ "type": "u8", "shape": [bytes], "init": { "constant": 0 } }));
        }
        buffers
    }

    fn map(&self, map: &TensorMap) -> Value {
        let (shape, ty) = (self.shape(map.operand), element(map.dtype));
        let pitch = shape.ld * map.dtype.bytes() as usize;
        let mut json = json!({
            "buffer": map.operand.name(),
            "type": ty,
            "dims": [shape.run(), shape.runs()],
            "strides": [pitch.next_multiple_of(TMA_BYTES)],
            "box": [map.row, map.box_rows(self.extents)],
            "swizzle": match map.swizzle { Swizzle::None => 0, Swizzle::Bytes(32) => 1, Swizzle::Bytes(64) => 2, Swizzle::Bytes(_) => 3 },
        });
        if self.kernel.problem().batch == Batch::Strided {
            let matrix = (pitch * shape.runs()).next_multiple_of(TMA_BYTES);
            json["dims"] = json!([shape.run(), shape.runs(), 1]);
            json["strides"] = json!([pitch, matrix]);
            json["box"] = json!([map.row, map.box_rows(self.extents), 1]);
        }
        json
    }
}

/// A type of the language as launch files call it.
fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "f64",
        DType::F32 | DType::Tf32 => "f32",
        DType::F16 => "f16",
        DType::Bf16 => "bf16",
        DType::E4m3 => "e4m3",
        DType::E5m2 => "e5m2",
        DType::I8 => "s8",
        DType::U8 => "u8",
        DType::I32 => "s32",
    }
}
