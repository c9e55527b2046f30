package study

func (b *book) codeAware() {}
func (b *book) losses()    {}
func (b *book) recorded()  {}
func (b *book) links()     {}
func (b *book) budgets()   {}
func (b *book) rates()     {}
