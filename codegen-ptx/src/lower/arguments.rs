//! The kernel's parameters, and their values in registers.

use ptx_gemm_dsl::terms::Param;

use super::registers::register_type;
use super::{Lowered, Lowering, broken};
use crate::kernel::build::Builder;
use crate::kernel::expr::UNBOUNDED;
use crate::kernel::{self, Expr, Family, MAX_EXTENT, Reg, Type};
use crate::tile::interface::TensorMap;
use crate::tile::record::Record;
use crate::tile::{Program, param_name};

/// The parameters of a program's kernel, followed by the fields of the records that it reads, if it reads any.
pub(super) fn declarations(program: &Program) -> Lowered<Vec<kernel::Param>> {
    let fields = Record::of(program).map_or_else(Vec::new, |record| record.fields);
    let own = program.params.iter().map(|param| declaration(program, param));
    let fields =
        fields.iter().map(|(param, byte)| Ok(kernel::Param { field: Some(*byte), ..declaration(program, param)? }));
    own.chain(fields).collect()
}

/// A parameter as declared in kernel IR.
pub(super) fn declaration(program: &Program, param: &Param) -> Lowered<kernel::Param> {
    let asked = program.problem.asked();
    let (types, epilogue) = (asked.types, &asked.epilogue);
    let asked_param = program.problem.asked_param(param);
    let (ty, about) = match &asked_param {
        Param::Matrix(op) => (Type::U64, format!("{} matrix {op:?}, global address", types.of(*op))),
        Param::Map(op) => {
            let map = TensorMap::of(program, program.problem.asked_operand(*op));
            (Type::U64, map.map_or_else(String::new, |map| map.about(program)))
        }
        Param::Vector(i) => {
            let vector = epilogue.vectors.get(*i).ok_or_else(|| broken(format!("the epilogue has no vector {i}")))?;
            (Type::U64, format!("vector {}, global address", vector.name))
        }
        Param::M => (Type::U32, "rows of D".into()),
        Param::N => (Type::U32, "columns of D".into()),
        Param::K => (Type::U32, "depth of the sum".into()),
        Param::Ld(op) => (Type::U64, format!("leading dimension of {op:?}, elements")),
        Param::BatchStride(op) => (Type::U64, format!("batch stride of {op:?}, elements")),
        Param::Batch => (Type::U32, "products of the batch".into()),
        Param::Scalar(i) => {
            let name = epilogue.scalars.get(*i).ok_or_else(|| broken(format!("the epilogue has no scalar {i}")))?;
            (register_type(types.epilogue()), format!("scalar {name}"))
        }
        Param::Problems => (Type::U64, "list of the products, global address".into()),
        Param::Tiles => (Type::U32, "tiles of all products, or 0 if that is not known".into()),
        Param::Workspace => (Type::U64, "partial sums, global address".into()),
        Param::Packed(op) => (Type::U64, format!("copy of {op:?}, global address")),
        Param::Scales(op) => (Type::U64, format!("scales of {op:?}, each followed by its inverse, global address")),
    };
    let holds = super::extent::holds(program, param);
    Ok(kernel::Param { name: param_name(&asked_param, &asked), ty, field: None, holds, about })
}

/// The kernel's arguments, read once.
pub(super) struct Args {
    pub m: Expr,
    pub n: Expr,
    pub k: Expr,
    /// The number of products.
    pub batch: Expr,
    /// Tiles of all products of a group.
    pub tiles: Expr,
    /// Indexed by scalar.
    pub scalars: Vec<Reg>,
}

impl Args {
    /// The verifier of tile IR has checked that each required parameter exists.
    pub(super) fn read(b: &mut Builder, program: &Program, scalar: Family) -> Args {
        b.origin("kernel", "read the arguments");
        let none = || Expr::Const(0);
        let mut args = Args { m: none(), n: none(), k: none(), batch: 1u32.into(), tiles: none(), scalars: Vec::new() };
        let mut scalars = Vec::new();
        for (index, param) in program.params.iter().enumerate() {
            let extent = u64::from(MAX_EXTENT);
            match param {
                Param::M => args.m = Expr::Reg(b.param(index, None), extent),
                Param::N => args.n = Expr::Reg(b.param(index, None), extent),
                Param::K => args.k = Expr::Reg(b.param(index, None), extent),
                Param::Scalar(i) => scalars.push((*i, b.param(index, Some(scalar)))),
                Param::Batch => args.batch = Expr::Reg(b.param(index, None), u64::from(u32::MAX)),
                Param::Tiles => args.tiles = Expr::Reg(b.param(index, None), u64::from(u32::MAX)),
                // Addresses and leading dimensions are read at their first use.
                Param::Matrix(_)
                | Param::Map(_)
                | Param::Vector(_)
                | Param::Ld(_)
                | Param::BatchStride(_)
                | Param::Problems
                | Param::Workspace
                | Param::Packed(_)
                | Param::Scales(_) => {}
            }
        }
        scalars.sort_by_key(|(i, _)| *i);
        args.scalars = scalars.into_iter().map(|(_, reg)| reg).collect();
        args
    }
}

impl Lowering<'_> {
    /// Reads an argument that is an address or a leading dimension; in a group, that of the current product.
    pub(super) fn wide_arg(&mut self, which: &Param) -> Lowered<Expr> {
        let index = self.index_of(which)?;
        if index < self.program.params.len() {
            return Ok(Expr::Reg(self.b.param(index, None), UNBOUNDED));
        }
        let record = self.role.record.clone().ok_or_else(|| broken("a field is read outside a product"))?;
        Ok(Expr::Reg(self.b.field(index, &record), UNBOUNDED))
    }

    /// Reads an extent from a record.
    pub(super) fn extent_of(&mut self, which: &Param, record: &Expr) -> Lowered<Expr> {
        let index = self.index_of(which)?;
        Ok(Expr::Reg(self.b.field(index, record), MAX_EXTENT.into()))
    }

    /// The index in kernel IR of a parameter or field.
    pub(super) fn index_of(&self, which: &Param) -> Lowered<usize> {
        let own = self.program.params.iter().position(|param| param == which);
        let field = || {
            let record = Record::of(self.program)?;
            let index = record.fields.iter().position(|(param, _)| param == which)?;
            Some(self.program.params.len() + index)
        };
        own.or_else(field)
            .ok_or_else(|| broken(format!("the kernel has no parameter {}", param_name(which, &self.program.problem))))
    }
}
