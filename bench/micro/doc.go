// Package micro has one benchmark for each operation, with our implementations
// and their rivals side by side under impl=, so that benchstat can put them in
// columns:
//
//	go test ./bench/micro -bench Reassemble -count 7 | tee new.txt
//	go tool -C bench benchstat -col /impl new.txt
package micro
