module manyhands.invalid/peer

go 1.24

require (
	github.com/contribsys/faktory v1.8.0
	github.com/contribsys/faktory_worker_go v1.7.0
)
