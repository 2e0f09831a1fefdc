package topology

// Describe returns the plan as text.
func (p *Plan) Describe() string { return "" }

// Mermaid draws it.
func (p *Plan) Mermaid() string { return "" }

// DOT draws it.
func (p *Plan) DOT() string { return "" }
