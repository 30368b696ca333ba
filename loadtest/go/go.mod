module manyhands.invalid/loadtest

go 1.24
