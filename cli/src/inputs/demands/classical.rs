//! The constraints of the operators of `ai.onnx.ml`, whose attributes contain the number of features.

use super::Node;

impl Node<'_> {
    /// Adds the constraint that the last extent of the operand is the number of features of a classical model.
    pub(super) fn features(&mut self) {
        let extent = self.extent(0, -1);
        let count =
            |name: &str| self.node.attributes.floats(name).ok().flatten().map_or(0, <[f32]>::len) as i64;
        match self.node.op_type.as_str() {
            "Scaler" => {
                let most = count("offset").max(count("scale"));
                if most > 1 {
                    self.number(extent, most);
                }
            }
            "Imputer" => {
                let most = count("imputed_value_floats").max(self.ints("imputed_value_int64s").len() as i64);
                if most > 1 {
                    self.number(extent, most);
                }
            }
            "LinearRegressor" => {
                let (all, targets) = (count("coefficients"), self.int("targets", 1).max(1));
                self.number(extent, all / targets);
            }
            "LinearClassifier" => {
                let rows = count("intercepts").max(1);
                self.number(extent, count("coefficients") / rows);
            }
            "SVMRegressor" => {
                let supports = self.int("n_supports", 0);
                let all =
                    if supports > 0 { count("support_vectors") / supports } else { count("coefficients") };
                self.number(extent, all);
            }
            "SVMClassifier" => {
                let supports = self.ints("vectors_per_class").iter().sum::<i64>();
                if supports > 0 {
                    self.number(extent, count("support_vectors") / supports);
                }
            }
            "TreeEnsembleRegressor" | "TreeEnsembleClassifier" | "TreeEnsemble" => {
                let features = self.ints("nodes_featureids");
                self.at_least(extent, features.iter().max().map_or(0, |n| n.saturating_add(1)));
            }
            _ => {}
        }
    }
}
